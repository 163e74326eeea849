"""A conversation with a language model in the terminal; an empty line or Ctrl-D ends it.

Run with `python examples/chat.py [MODEL]`: a GGUF file, a Hugging Face folder, or the short name of a model, which is
installed on its first use (SmolLM2, 98 MB, unless another is named).
"""

import sys

import snell as sn


def _line() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""


def main() -> None:
    """Answer each line with what has been said before in mind."""
    model = sn.llm.load(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
    messages: list[dict[str, str]] = []
    while line := _line():
        messages.append({"role": "user", "content": line})
        with model.generate(messages, temperature=0.7, top_p=0.9, max_tokens=256, stream=True) as stream:
            for chunk in stream:
                sys.stdout.write(chunk.text)
                sys.stdout.flush()
        sys.stdout.write("\n")
        messages.append({"role": "assistant", "content": stream.result.text})


if __name__ == "__main__":
    main()
