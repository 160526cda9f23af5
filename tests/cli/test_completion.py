"""What the shell gets to complete a word that was begun."""

from __future__ import annotations

import pytest

from hasten.cli.commands import parse


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tu"], {"plain,tune"}),
        (["tune", "--bu"], {"plain,--budget"}),
        (["tune", "--risk", "dr"], {"plain,draws"}),
        (["run", "--use", "fused"], {"plain,fused_optimizer"}),
        (["tune", "--only", "fused"], {"plain,fused_optimizer"}),
        (["run", "--without", "bf"], {"plain,bf16"}),
        (["run", "--plan", "p"], {"file,p"}),
        (["tune", "--json", "p"], {"file,p"}),
        (["tune", "tr"], {"file,tr"}),
        (["tune", "train.py", "data"], {"file,data"}),
        (["tune", "train.py", "--bu"], {"file,--bu"}),  # the script's own
        (["run", "-m", "package.train", "--bu"], {"file,--bu"}),
    ],
)
def test_a_word_is_completed(
    words: list[str], offered: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_HASTEN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["hasten", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit) as end:
        parse()
    assert end.value.code == 0
    assert set(capsys.readouterr().out.split()) == offered


def test_the_shell_is_told_how_to_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_HASTEN_COMPLETE", "zsh_source")
    with pytest.raises(SystemExit) as end:
        parse()
    assert end.value.code == 0
    assert "_HASTEN_COMPLETE=zsh_complete hasten" in capsys.readouterr().out
