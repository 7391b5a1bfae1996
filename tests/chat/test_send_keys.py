"""Does a key go only where the package, the user's own configuration or the command line says?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldmark.chat import user_tables
from fieldmark.chat.prices import load_tables
from fieldmark.chat.send.keys import is_secret, open_environment, read_key
from fieldmark.cli import main
from fieldmark.settings import user_config
from kit.key_log import KeyLog, logging_endpoint
from kit.rings import mostly_slow

SECRET = "sk-live-0123456789abcdefSECRET"
RUN = ["run", "--task", "world-stage", "--n-test", "2", "--quiet", "--model"]


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyLog]:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "CHAT_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET)
    assert main(["data", "make", "world", "--size", "40"]) == 0
    with logging_endpoint() as log:
        yield log


def project(endpoint: KeyLog, name: str = "openai", key_env: str = "OPENAI_API_KEY") -> None:
    """A `fieldmark.toml` that came with the folder."""
    Path("fieldmark.toml").write_text(row(endpoint, name, key_env))


def row(endpoint: KeyLog, name: str, key_env: str) -> str:
    key = f'key_env = "{key_env}"\n' if key_env else ""
    return f'[[chat_providers]]\nname = "{name}"\nbase_url = "{endpoint.url}"\n{key}'


def refused(capsys: pytest.CaptureFixture[str], file: str, variable: str, host: str) -> str:
    """The last line, which names file, host, variable and what to type."""
    lines = capsys.readouterr().err.strip().splitlines()
    told = next(line for line in lines if "would send" in line)
    assert file in told and variable in told and host in told
    assert f"--send-key {variable}={host}" in told and str(user_config()) in told
    assert SECRET not in told
    return told


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("provider", ["openai", "lab"])
@pytest.mark.parametrize("command", mostly_slow(["run", "plan"], "run"))
def test_projects_address_gets_no_key(
    endpoint: KeyLog,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    provider: str,
    command: str,
) -> None:
    project(endpoint, provider, variable)
    assert main([command, *RUN[1:], f"chat/{provider}/gpt-4o"]) == 2
    if provider == "lab":
        refused(capsys, "fieldmark.toml", variable, endpoint.host)
    else:
        redirect_refused(capsys, endpoint.host)
    assert endpoint.keys == []


def redirect_refused(capsys: pytest.CaptureFixture[str], host: str) -> None:
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert "fieldmark.toml gives the known provider 'openai' another address" in told
    assert host in told and str(user_config()) in told and SECRET not in told


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("key_env", mostly_slow(["", "OPENAI_API_KEY"], ""))
def test_defect_third_look_n2_a_folder_never_redirects_a_known_provider(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str], command: str, key_env: str
) -> None:
    """Photos and questions went to the folder's address, and the table said chat/openai/gpt-4o."""
    project(endpoint, "openai", key_env)
    more = ["--send-key", f"{key_env}={endpoint.host}"] if key_env else []
    assert main([command, *RUN[1:], "chat/openai/gpt-4o", *more]) == 2
    redirect_refused(capsys, endpoint.host)
    assert endpoint.keys == []


def test_a_folder_never_asks_a_known_provider_for_another_model(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fieldmark.toml").write_text(
        '[[chat_providers]]\nname = "openai"\nbase_url = "https://api.openai.com/v1"\n'
        'key_env = "OPENAI_API_KEY"\nbody = {model = "dear"}\n'
    )
    assert main(["plan", *RUN[1:], "chat/openai/gpt-4o"]) == 2
    told = capsys.readouterr().err
    assert "gives the known provider 'openai' another address or other requests" in told


def test_a_folder_lowers_no_price_that_is_known(endpoint: KeyLog) -> None:
    """`--max-usd` would not hold."""
    rows = '[[chat_models]]\nprovider = "openai"\nid = "%s"\nusd_in = 0.0\nusd_out = 900.0\n'
    Path("fieldmark.toml").write_text(rows % "gpt-4o" + rows % "gpt-4o-2024-09-09" + rows % "new")
    known, made = load_tables([]), user_tables(Path.cwd())
    for name in ("gpt-4o", "gpt-4o-2024-09-09"):
        card = made.card("openai", name)
        assert (card.usd_in, card.usd_out) == (known.card("openai", "gpt-4o").usd_in, 900.0)
    assert made.card("openai", "new").usd_in == 0.0
    user_config().parent.mkdir(parents=True, exist_ok=True)
    user_config().write_text(rows % "gpt-4o")
    assert user_tables(Path.cwd()).card("openai", "gpt-4o").usd_in == 0.0, "one's own word"


def test_a_folder_never_takes_a_known_alias(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    alias = next(word for row in load_tables([]).providers.values() for word in row.aliases)
    Path("fieldmark.toml").write_text(row(endpoint, "lab", "") + f'aliases = ["{alias}"]\n')
    assert main([*RUN, "chat/lab/m"]) == 2
    assert "gives the known provider 'lab' another address" in capsys.readouterr().err
    assert endpoint.keys == []


@pytest.mark.slow
def test_flag_confirms_one_variable_for_one_host(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    project(endpoint, "lab", "OPENAI_API_KEY")
    for pair in ("CHAT_API_KEY=" + endpoint.host, "OPENAI_API_KEY=127.0.0.1", "OPENAI_API_KEY=x"):
        assert main([*RUN, "chat/lab/m", "--send-key", pair]) == 2
    refused(capsys, "fieldmark.toml", "OPENAI_API_KEY", endpoint.host)
    assert endpoint.keys == []
    assert main([*RUN, "chat/lab/m", "--send-key", f"OPENAI_API_KEY={endpoint.host}"]) == 0
    assert set(endpoint.keys) == {f"Bearer {SECRET}"}


def test_users_own_configuration_confirms(endpoint: KeyLog) -> None:
    project(endpoint, "lab", "OPENAI_API_KEY")
    user_config().parent.mkdir(parents=True, exist_ok=True)
    user_config().write_text(row(endpoint, "mine", "OPENAI_API_KEY"))
    assert main([*RUN, "chat/lab/m"]) == 0
    assert set(endpoint.keys) == {f"Bearer {SECRET}"}


def test_users_own_send_key_confirms(endpoint: KeyLog, monkeypatch: pytest.MonkeyPatch) -> None:
    project(endpoint, "lab", "OPENAI_API_KEY")
    monkeypatch.setenv("FIELDMARK_SEND_KEY", f"OPENAI_API_KEY={endpoint.host}")
    assert main([*RUN, "chat/lab/m"]) == 0
    assert set(endpoint.keys) == {f"Bearer {SECRET}"}


def test_project_cannot_confirm_itself(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    own = row(endpoint, "lab", "OPENAI_API_KEY")
    Path("fieldmark.toml").write_text(f'send_key = ["OPENAI_API_KEY={endpoint.host}"]\n{own}')
    assert main([*RUN, "chat/lab/m"]) == 2
    told = capsys.readouterr().err
    assert "fieldmark.toml:1: only you can set send_key" in told
    assert endpoint.keys == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "chat/custom/m?base_url={url}",
        "chat/custom/m?base_url={url}&key_env=OPENAI_API_KEY",
        "chat/openai/gpt-4o?base_url={url}&key_env=OPENAI_API_KEY",
        "chat/vllm/m?base_url={url}&key_env=AWS_SECRET_ACCESS_KEY",
    ],
)
def test_name_is_the_users_word_when_typed_and_not_in_a_file(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    name = name.format(url=endpoint.url)
    variable = name.partition("key_env=")[2] or "CHAT_API_KEY"
    Path("exp.toml").write_text(f'models = ["{name}"]\ntasks = ["world-stage"]\nn_test = 2\n')
    for words in (["run", "exp.toml", "--quiet"], ["plan", "exp.toml"], ["check", "exp.toml"]):
        assert main(words) == 2
        streams = capsys.readouterr()
        told = streams.out + streams.err
        assert f"--send-key {variable}={endpoint.host}" in told and "exp.toml:1" in told
    assert endpoint.keys == []
    assert main([*RUN, name]) == 0
    n = len(endpoint.keys)
    assert n and set(endpoint.keys) == {f"Bearer {SECRET}"}
    again = ["run", "exp.toml", "--quiet", "--force", "--results", "other"]
    assert main([*again, "--send-key", f"{variable}={endpoint.host}"]) == 0
    assert len(endpoint.keys) == 2 * n and set(endpoint.keys) == {f"Bearer {SECRET}"}


def test_typed_variable_does_not_vouch_for_a_files_address(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    project(endpoint, "lab")
    assert main([*RUN, "chat/lab/gpt-4o?key_env=OPENAI_API_KEY"]) == 2
    refused(capsys, "fieldmark.toml", "OPENAI_API_KEY", endpoint.host)
    assert endpoint.keys == []


def test_typed_address_does_not_vouch_for_a_files_variable(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    row_of_custom = '[[chat_providers]]\nname = "custom"\nkey_env = "AWS_SECRET_ACCESS_KEY"\n'
    Path("fieldmark.toml").write_text(row_of_custom)
    assert main([*RUN, f"chat/custom/m?base_url={endpoint.url}"]) == 2
    refused(capsys, "fieldmark.toml", "AWS_SECRET_ACCESS_KEY", endpoint.host)
    assert endpoint.keys == []


@pytest.mark.slow
def test_address_without_a_key_needs_no_word(
    endpoint: KeyLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(endpoint, "lab", "")
    assert main([*RUN, "chat/lab/m"]) == 0
    project(endpoint, "lab", "NOT_SET_ANYWHERE")
    assert main([*RUN, "chat/lab/other"]) == 0
    assert endpoint.keys and set(endpoint.keys) == {""}


def test_project_may_repeat_what_the_package_says(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fieldmark.toml").write_text(
        '[[chat_providers]]\nname = "openai"\nbase_url = "https://api.openai.com/v1"\n'
        'key_env = "OPENAI_API_KEY"\nmax_images = 3\n'
    )
    assert main(["plan", *RUN[1:], "chat/openai/gpt-4o"]) == 0


def test_python_is_refused_too(endpoint: KeyLog) -> None:
    from fieldmark.chat import ask_now
    from fieldmark.errors import UsageError
    from fieldmark.models import load_chat_model
    from kit.chat import FAST, ask_about

    project(endpoint, "lab")
    with pytest.raises(UsageError, match="would send the key in OPENAI_API_KEY"):
        ask_now([ask_about(1)], load_chat_model("chat/lab/gpt-4o"), FAST)
    assert endpoint.keys == []


@pytest.mark.parametrize(
    "pair", mostly_slow(["OPENAI_API_KEY", "=host", "A=http://host/v1", "A=b=c"], "=host")
)
def test_mistyped_pair_is_told(
    endpoint: KeyLog, capsys: pytest.CaptureFixture[str], pair: str
) -> None:
    assert main([*RUN, "chat/mock/wren", "--send-key", pair]) == 2
    assert "expected VARIABLE=HOST, for example" in capsys.readouterr().err


def test_an_open_environment_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("ODDLY_NAMED", SECRET)
    assert SECRET in open_environment().values()
    assert SECRET not in open_environment(also=("ODDLY_NAMED",)).values()
    assert open_environment()["PATH"] == os.environ["PATH"]
    assert read_key("HF_TOKEN") == read_key("ODDLY_NAMED") == SECRET


def test_what_sounds_like_a_secret() -> None:
    secret = "OPENAI_API_KEY HF_TOKEN GITHUB_PAT AWS_PROFILE DB_PASSWORD my_secret SSH_AUTH_SOCK"
    open_ones = "PATH HOME TOKENIZERS_PARALLELISM KEYBOARD MONKEY_PATCH LANG OMP_NUM_THREADS"
    assert all(map(is_secret, secret.split()))
    assert not any(map(is_secret, open_ones.split()))
