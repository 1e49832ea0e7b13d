import copy
import doctest
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood import url as url_module
from cordwood.errors import InvalidInput, Unavailable
from cordwood.url import FileUrl, KafkaUrl, PlogUrl, masked_url, parse_url

SECRET = "hunter2"

# Names of one path: anything but "/" and NUL, also bytes that are no UTF-8, as the system allows.
file_names = st.lists(st.integers(1, 255).filter(lambda byte: byte != ord("/")), min_size=1, max_size=20).map(
    lambda name: os.fsdecode(bytes(name))
)
absolute_paths = st.lists(file_names, max_size=4).map(lambda names: Path("/", *names))
setting_names = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8}){0,2}", fullmatch=True).filter(
    lambda name: name != "bootstrap.servers"
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# Passwords with what means something in a url in front of, inside and after them, unescaped.
awkward = st.text("/?#@:%=,;+ [](", max_size=4)
passwords = st.tuples(awkward, awkward).map(lambda around: around[0] + SECRET + around[1])


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"data"


class TestFolders:
    @pytest.mark.parametrize(
        ("url", "path"),
        [
            ("file:/abs/data", "/abs/data"),
            ("file:///abs/data", "/abs/data"),
            ("file://localhost/abs/data", "/abs/data"),
            ("FILE:/abs", "/abs"),
            ("file:/", "/"),
            ("file:/my%20data", "/my data"),
            ("file:/my data", "/my data"),
            ("file:/100%25", "/100%"),
            ("file:/what%3F%23", "/what?#"),
            ("file:/gr%C3%BCn", "/grün"),
            ("file:/a@b", "/a@b"),
        ],
    )
    def test_an_absolute_path_is_taken_as_it_is(self, url: str, path: str) -> None:
        assert parse_url(url) == FileUrl(Path(path))

    @pytest.mark.parametrize("url", ["file:./data", "file:data", Path("data"), Path("./data")], ids=repr)
    def test_a_relative_path_becomes_absolute_at_once(
        self, url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        parsed = parse_url(url)
        monkeypatch.chdir("/")
        assert parsed == FileUrl(tmp_path / "data")

    @pytest.mark.parametrize("url", ["file:./data", Path("data")], ids=repr)
    def test_a_relative_path_where_the_current_folder_is_gone_is_unavailable(
        self, url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(Unavailable, match=r"data': its path is relative, and there is no current folder"):
            parse_url(url)
        assert parse_url("file:/srv") == FileUrl(Path("/srv"))

    def test_a_path_object_is_never_read_as_a_url(self) -> None:
        assert parse_url(Path("/srv/file:x%20y?z")) == FileUrl(Path("/srv/file:x%20y?z"))

    def test_a_folder_may_be_called_as_a_shell_calls_the_home_folder(self) -> None:
        assert parse_url("file:./~/data") == parse_url(Path("~/data")) == FileUrl(Path.cwd() / "~" / "data")

    @given(absolute_paths)
    @example(Path("/a?b#c%d"))
    def test_any_path_survives_being_written_as_a_url(self, path: Path) -> None:
        assert parse_url(path) == FileUrl(path)
        assert parse_url(str(FileUrl(path))) == FileUrl(path)

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("file:", "the path is missing"),
            ("file://", "the path is missing"),
            ("file:~", "'~' is not the home folder here"),
            ("file:~/data", "'~' is not the home folder here"),
            ("file://server/share", "on this machine"),
            ("file:./data?sync=no", "takes no settings"),
            ("file:./data#1", "%23"),
            ("file:./100%", "%25"),
            ("file:./%zz", "two hexadecimal digits"),
            ("file:./a%00b", "NUL"),
            (Path("/a\0b"), "NUL"),
            (Path("/a\ud800"), "cannot be encoded"),
            ("file:/a\ud800", "lone surrogate"),
        ],
        ids=repr,
    )
    def test_a_wrong_one_is_refused_with_the_reason(self, url: str | Path, why: str) -> None:
        with pytest.raises(InvalidInput, match=why):
            parse_url(url)


class TestKafka:
    def test_servers_and_settings_are_taken_apart(self) -> None:
        parsed = parse_url("kafka://b1:9092,b2:9093?security.protocol=SASL_SSL&client.id=a%20b%26c+d")
        assert parsed == KafkaUrl(("b1:9092", "b2:9093"), {"security.protocol": "SASL_SSL", "client.id": "a b&c+d"})

    @pytest.mark.parametrize(
        ("url", "servers"),
        [
            ("kafka://b1", ("b1:9092",)),
            ("kafka://b1/", ("b1:9092",)),
            ("KAFKA://b_1.x-y.example:1", ("b_1.x-y.example:1",)),
            ("kafka://[::1]:9092,[fe80::1]", ("[::1]:9092", "[fe80::1]:9092")),
            ("kafka://10.0.0.1:65535", ("10.0.0.1:65535",)),
        ],
    )
    def test_a_server_is_a_name_or_an_address_with_or_without_a_port(self, url: str, servers: tuple[str, ...]) -> None:
        assert parse_url(url) == KafkaUrl(servers, {})

    def test_config_adds_to_the_settings_of_the_url(self) -> None:
        parsed = parse_url("kafka://b1:9092?client.id=me", {"sasl.password": SECRET})
        assert parsed == KafkaUrl(("b1:9092",), {"client.id": "me", "sasl.password": SECRET})

    @given(st.dictionaries(setting_names, texts))
    def test_any_setting_is_the_same_in_the_url_and_in_config(self, config: dict[str, str]) -> None:
        query = "&".join(f"{name}={percent_encoded(value)}" for name, value in config.items())
        assert parse_url(f"kafka://b1:9092?{query}") == parse_url("kafka://b1:9092", config)

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("kafka:b1:9092", "two slashes"),
            ("kafka://", "each server is HOST:PORT"),
            ("kafka://b1:9092,", "each server is HOST:PORT"),
            ("kafka://b1:port", "each server is HOST:PORT"),
            ("kafka://b1:0", "the port 0 of 'b1' is not between 1 and 65535"),
            ("kafka://b1:65536", "the port 65536 of 'b1' is not between 1 and 65535"),
            ("kafka://b1:9092/events", "takes no path"),
            ("kafka://b1:9092?client.id", "NAME=VALUE"),
            ("kafka://b1:9092?=x", "NAME=VALUE"),
            ("kafka://b1:9092?a=1&a=2", "a is set twice"),
            ("kafka://b1:9092?a=%ff", "not UTF-8"),
            ("kafka://b1:9092?a=%f", "two hexadecimal digits"),
            ("kafka://b1:9092?bootstrap.servers=b2", "bootstrap.servers is set"),
            ("kafka://me:pw@b1:9092", "sasl.username and sasl.password"),
        ],
    )
    def test_a_wrong_one_is_refused_with_the_reason(self, url: str, why: str) -> None:
        with pytest.raises(InvalidInput, match=why):
            parse_url(url)

    def test_a_setting_in_the_url_and_in_config_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"client\.id is set in the url and in config"):
            parse_url("kafka://b1:9092?client.id=me", {"client.id": "you"})

    def test_a_url_can_be_hashed_copied_and_pickled_but_not_changed(self) -> None:
        config = {"sasl.password": SECRET}
        parsed = KafkaUrl(("b1:9092",), config)
        config["sasl.password"] = "other"
        assert parsed.config["sasl.password"] == SECRET
        assert parsed == pickle.loads(pickle.dumps(parsed)) == copy.deepcopy(parsed)
        assert hash(parsed) == hash(copy.copy(parsed))
        assert parsed != KafkaUrl(("b1:9092",), config)
        with pytest.raises(TypeError):
            parsed.config["sasl.password"] = "other"  # type: ignore[index]  # the mistake under test


class TestPlog:
    @pytest.mark.parametrize(
        ("url", "servers"),
        [
            ("plog://c1:7400/main", ("c1:7400",)),
            ("plog://c1:7400,c2:7401/main", ("c1:7400", "c2:7401")),
            ("PLOG://[::1]:7400/main", ("[::1]:7400",)),
        ],
    )
    def test_servers_and_cluster_are_taken_apart(self, url: str, servers: tuple[str, ...]) -> None:
        parsed = parse_url(url)
        assert parsed == PlogUrl(servers, "main")
        assert parse_url(str(parsed)) == parsed

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("plog:c1:7400/main", "two slashes"),
            ("plog://c1/main", "the server 'c1' has no port"),
            ("plog://c1:7400", "after the servers comes /CLUSTER"),
            ("plog://c1:7400/", "after the servers comes /CLUSTER"),
            ("plog://c1:7400/a/b", "after the servers comes /CLUSTER"),
            ("plog://c1:7400/..", "after the servers comes /CLUSTER"),
            ("plog://c1:7400/main?a=b", "takes no settings"),
            ("plog://me:pw@c1:7400/main", "a login has no place"),
        ],
    )
    def test_a_wrong_one_is_refused_with_the_reason(self, url: str, why: str) -> None:
        with pytest.raises(InvalidInput, match=why):
            parse_url(url)


class TestAnythingElse:
    @pytest.mark.parametrize(
        ("url", "meant"),
        [
            ("data", "file:./data"),
            ("./data", "file:./data"),
            ("../data", "file:../data"),
            ("/srv/data", "file:/srv/data"),
            ("my data", "file:./my%20data"),
            ("localhost:9092", "kafka://localhost:9092"),
        ],
    )
    def test_a_string_without_a_scheme_is_refused_with_a_guess(self, url: str, meant: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_url(url)
        assert f"did you mean '{meant}'?" in str(caught.value)

    @pytest.mark.parametrize("url", ["", "http://b1:80/", "sqlite:x.db", "c:\\data", " file:x", "://", ":"])
    def test_what_is_allowed_is_said(self, url: str) -> None:
        with pytest.raises(InvalidInput, match="file:FOLDER, kafka://HOST:PORT") as caught:
            parse_url(url)
        assert repr(url) in str(caught.value)

    @pytest.mark.parametrize("url", ["file:./data", "plog://c1:7400/main", Path("data")], ids=repr)
    def test_settings_that_nobody_would_read_are_refused(self, url: str | Path) -> None:
        with pytest.raises(InvalidInput, match=r"config has client\.id") as caught:
            parse_url(url, {"client.id": SECRET})
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("url", [None, b"file:./data", 7, BytesPath()])
    def test_a_wrong_python_type_is_a_type_error(self, url: object) -> None:
        with pytest.raises(TypeError, match="url is a str or a path object"):
            parse_url(url)  # type: ignore[arg-type]  # the mistake under test

    @pytest.mark.parametrize("config", [None, [("a", "b")], {"a": 1}, {1: "a"}, {"a": None}])
    def test_a_config_of_other_types_is_a_type_error(self, config: object) -> None:
        with pytest.raises(TypeError, match="config"):
            parse_url("kafka://b1", config)  # type: ignore[arg-type]  # the mistake under test

    @given(st.sampled_from(["", "file:", "kafka://", "kafka://b1?", "plog://"]), st.text(st.characters()))
    @example("file:", "\ud800")
    @example("kafka://b1?", "\ud800=%\ud800")
    def test_any_text_is_a_url_or_invalid_input(self, start: str, text: str) -> None:
        try:
            parsed = parse_url(start + text)
        except InvalidInput:
            return
        assert str(parsed)
        assert repr(parsed)


class TestSecrets:
    @pytest.mark.parametrize(
        "name",
        [
            "sasl.password",
            "SASL.PASSWORD",
            "ssl.key.pem",
            "ssl.key.password",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "sasl.jaas.config",
            "access_token",
        ],
    )
    def test_a_secret_never_shows_in_a_repr(self, name: str) -> None:
        parsed = parse_url("kafka://b1:9092", {name: SECRET, "client.id": "me"})
        assert isinstance(parsed, KafkaUrl)
        assert parsed.config[name] == SECRET
        assert repr(parsed).endswith(f"config={{{name!r}: '***', 'client.id': 'me'}})")
        assert str(parsed) == f"kafka://b1:9092?{name}=***&client.id=me"
        assert SECRET not in f"{parsed} {parsed!r} {[parsed]} {parsed.servers}"

    def test_a_login_inside_of_a_value_never_shows(self) -> None:
        parsed = parse_url("kafka://b1:9092", {"proxy.url": f"http://me:{SECRET}@proxy:80"})
        assert repr(parsed).endswith("{'proxy.url': 'http://***@proxy:80'})")
        assert SECRET not in str(parsed)

    @given(passwords, st.sampled_from(["kafka://", "plog://", "file://", "http://", "kafka:", "//", ""]))
    def test_a_login_never_shows_in_an_error(self, password: str, before: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_url(f"{before}me:{password}@b1:9092/main")
        assert SECRET not in str(caught.value)

    @given(passwords, st.sampled_from(["kafka://", "plog://", "file:/", "http://", ""]))
    def test_a_secret_setting_never_shows_in_an_error(self, password: str, before: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_url(f"{before}b1:0/main?a=b&sasl.pass%77ord={password}&c=d")
        assert SECRET not in str(caught.value)

    def test_what_follows_an_unescaped_ampersand_in_a_secret_never_shows(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_url(f"kafka://b1:9092?sasl.password=a&{SECRET}&{SECRET}&client.id=me")
        assert "'kafka://b1:9092?sasl.password=***&***&***&client.id=me'" in str(caught.value)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("kafka://b1:9092?client.id=me", "kafka://b1:9092?client.id=me"),
            ("kafka://me:pw@b1:9092", "kafka://***@b1:9092"),
            ("kafka://me:p@w@b1:9092", "kafka://***@b1:9092"),
            ("kafka://b1:9092?client.id=me@x", "kafka://***@x"),
            ("kafka://me:p?key=w@b1:9092", "kafka://***"),
            ("kafka://b1:9092?sasl.password=p@w", "kafka://***"),
            ("me:pw@b1", "me:***@b1"),
            ("file:/srv/a@b", "file:/srv/a@b"),
            ("file:///srv/a@b", "file:///srv/a@b"),
            ("file://me:pw@b1/x", "file://***@b1/x"),
        ],
    )
    def test_what_cannot_be_a_secret_stays_readable(self, url: str, shown: str) -> None:
        assert masked_url(url) == shown


def test_every_example_of_the_module_runs() -> None:
    assert doctest.testmod(url_module).failed == 0


def percent_encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())
