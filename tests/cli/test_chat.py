"""`snell chat` and `snell run --json`: a conversation with its commands, and an answer as one object."""

import json
from pathlib import Path

import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama
from typer.testing import CliRunner

from snell.cli.conversation import Conversation
from snell.cli.main import app
from snell.errors import ConfigError

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf_llama(
        tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama(num_hidden_layers=1, max_position_embeddings=128)
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("folders")  # one cache for all: a model is compiled once
    return {"SNELL_CACHE_DIR": str(folder / "cache"), "SNELL_DATA_DIR": str(folder / "data"), "SNELL_THREADS": "1"}


def talked() -> Conversation:
    conversation = Conversation("be kind")
    for question, answer in (("a?", "a!"), ("b?", "b!")):
        conversation.ask(question)
        conversation.answer(answer)
    return conversation


def contents(conversation: Conversation) -> list[str]:
    return [message["content"] for message in conversation.messages]


def test_help_lists_every_command() -> None:
    lines = Conversation().command("/help").splitlines()
    assert [line.split()[0] for line in lines] == ["/help", "/system", "/undo", "/reset", "/save", "/quit"]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("/undo", ["be kind", "a?", "a!"]),
        ("/reset", ["be kind"]),
        ("/system be brief", ["be brief"]),
        ("/system", []),
        ("/help", ["be kind", "a?", "a!", "b?", "b!"]),
    ],
)
def test_a_command_leaves_these_messages(line: str, left: list[str]) -> None:
    conversation = talked()
    conversation.command(line)
    assert contents(conversation) == left
    assert not conversation.over


def test_undo_without_a_question_says_so() -> None:
    assert Conversation("x").command("/undo") == "nothing was asked yet"


def test_quit_ends_the_conversation() -> None:
    conversation = talked()
    conversation.command("/quit")
    assert conversation.over


def test_save_writes_the_messages_as_json(tmp_path: Path) -> None:
    conversation = talked()
    assert "5 messages" in conversation.command(f"/save {tmp_path / 'talk.json'}")
    assert json.loads((tmp_path / "talk.json").read_text()) == conversation.messages


@pytest.mark.parametrize("line", ["/bogus", "/", "/save"])
def test_a_command_that_means_nothing_is_named(line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}: expected"):
        talked().command(line)


def test_a_conversation_goes_on_after_a_mistake_and_shows_its_speed(
    tiny: Path, folders: dict[str, str], tmp_path: Path
) -> None:
    saved = tmp_path / "talk.json"
    said = [
        "hi",
        "/bogus",
        "x" * 200,
        f"/save {tmp_path}/none/talk.json",
        "/system s",
        "again",
        f"/save {saved}",
        "/quit",
        "no",
    ]
    result = RUNNER.invoke(
        app, ["chat", str(tiny), "--max-tokens", "8", "--seed", "1"], input="\n".join(said) + "\n", env=folders
    )
    assert result.exit_code == 0, result.output
    assert result.stderr.count("tok/s") == 2
    assert result.stderr.count("error:") == 3
    assert "begin anew with /reset" in result.stderr
    assert [message["role"] for message in json.loads(saved.read_text())] == ["system", "user", "assistant"]


def test_run_writes_one_object_that_follows_a_schema(tiny: Path, folders: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"enum": ["red", "blue"]}')
    arguments = ["run", str(tiny), "hi", "--json", "--max-tokens", "40", "--json-schema", str(tmp_path / "schema.json")]
    result = RUNNER.invoke(app, arguments, env=folders)
    assert result.exit_code == 0, result.output
    fields = json.loads(result.stdout)
    assert json.loads(fields["text"]) in ("red", "blue")
    assert fields["finish_reason"] == "stop"
    assert fields["usage"]["completion_tokens"] == len(fields["token_ids"])
    assert fields["usage"]["total_tokens"] == fields["usage"]["prompt_tokens"] + len(fields["token_ids"])
    assert fields["timings"]["decode_tokens_per_second"] > 0
