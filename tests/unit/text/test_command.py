"""``sonant normalize``."""

from typer.testing import CliRunner

from server.cli.main import create_app


def run(*arguments: str, typed: str | None = None):
    return CliRunner().invoke(create_app(["normalize"]), ["normalize", *arguments], input=typed)


def test_prints_the_text_to_speak():
    result = run("It costs **$5** [pause 0.5s] today. 🎉")
    assert result.stdout == "It costs five dollars today.\n"
    assert result.stderr == "pause of 0.5 s before character 22\n"


def test_reads_standard_input():
    assert run("-", typed="One\n\n2\n").stdout == "One.\n\nTwo.\n"


def test_steps_and_pronunciations_and_languages_can_be_chosen():
    assert run("**5** SQL", "--steps", "markup", "--pronunciation", "SQL=sequel").stdout == "5 sequel\n"
    assert run("5", "--language", "EN").stdout == "Five.\n"
    assert run("5 Euro", "--language", "german").stdout == "5 Euro\n"
    assert run("Hi 🎉", "--name-emoji").stdout == "Hi party popper.\n"


def test_warns_about_a_script_that_the_language_does_not_use():
    assert run("Hi 你好").stderr == "Warning: the text has Han letters, which english is not written in.\n"


def test_refuses_invalid_options():
    assert run("Hi", "--steps", "spell").exit_code == 2
    assert run("Hi", "--language", "klingon").exit_code == 2
    assert run("Hi", "--pronunciation", "SQL").exit_code == 2
