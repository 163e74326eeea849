"""GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written.

Source: ``bytes_to_unicode`` of https://github.com/openai/gpt-2/blob/master/src/encoder.py.
"""

__all__ = ["BYTE_OF_CHARACTER", "spelled_bytes"]


def _table() -> dict[str, int]:
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    table.update((chr(256 + index), byte) for index, byte in enumerate(others))
    return table


BYTE_OF_CHARACTER = _table()


def spelled_bytes(token: str) -> bytes:
    """The bytes that a token spells; a character outside of the spelling stands for its own UTF-8."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode()
