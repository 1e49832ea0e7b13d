"""Urls of stores: a relative path becomes absolute at once, and a wrong url names its mistake."""

import os
from pathlib import Path

import pytest

from cordwood.errors import InvalidInput, Unavailable
from cordwood.store.url import CassandraUrl, SqliteUrl, parse_store_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:/srv/store.db", "/srv/store.db"),
        ("sqlite:///srv/store.db", "/srv/store.db"),
        ("sqlite://localhost/srv/store.db", "/srv/store.db"),
        ("SQLITE:/srv/store.db", "/srv/store.db"),
        ("sqlite:store.db", "/base/store.db"),
        ("sqlite:./a/store.db", "/base/a/store.db"),
        ("sqlite:/srv/my%20store%3F%23%25.db", "/srv/my store?#%.db"),
        ("sqlite:/srv/größe.db", "/srv/größe.db"),
    ],
)
def test_a_url_names_an_absolute_path(url: str, path: str) -> None:
    parsed = parse_store_url(url, Path("/base"))
    assert parsed == SqliteUrl(Path(path))
    assert parse_store_url(str(parsed)) == parsed


def test_a_relative_path_begins_at_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_store_url("sqlite:store.db") == SqliteUrl(tmp_path / "store.db")


def test_a_path_of_any_bytes_survives(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\xfe.db")
    assert parse_store_url(str(SqliteUrl(path))) == SqliteUrl(path)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "it is empty"),
        ("store.db", "did you mean 'sqlite:store.db'?"),
        ("/srv/store.db", "did you mean 'sqlite:/srv/store.db'?"),
        ("sqlite:", "the path is missing"),
        ("sqlite://host/store.db", "a file on this machine"),
        ("sqlite:store.db?mode=ro", "takes no settings"),
        ("sqlite:store#1.db", "%23"),
        ("sqlite:~/store.db", "'~' is not the home folder"),
        ("sqlite::memory:", "outlives the program"),
        ("sqlite:folder/", "is a folder"),
        ("sqlite:a%2", "two hexadecimal digits"),
        ("sqlite:a%00b", "NUL"),
        ("sqlite:a\ud800", "lone surrogate"),
        ("postgres://host/db", "the scheme 'postgres' is unknown"),
        ("cassandra:host/journal", "two slashes come before the nodes"),
        ("cassandra://host", "after the nodes comes /KEYSPACE"),
        ("cassandra://host/", "after the nodes comes /KEYSPACE"),
        ("cassandra://host/a-b", "1 to 48 letters, digits and '_'"),
        ("cassandra://host/" + "k" * 49, "1 to 48 letters, digits and '_'"),
        ("cassandra:///journal", "each node is HOST or HOST:PORT"),
        ("cassandra://a,,b/journal", "each node is HOST or HOST:PORT"),
        ("cassandra://host:x/journal", "each node is HOST or HOST:PORT"),
        ("cassandra://host:0/journal", "the port 0 of 'host' is not between 1 and 65535"),
        ("cassandra://host:65536/journal", "the port 65536 of 'host'"),
        ("cassandra://me:secret@host/journal", "put username and password into the store's config"),
        ("cassandra://host/journal?consistency=ONE", "consistency is 'ONE': it is one of LOCAL_QUORUM, QUORUM"),
        ("cassandra://host/journal?local_dc=", "local_dc has no value"),
        ("cassandra://host/journal?local_dc=a&local_dc=b", "local_dc is set twice"),
        ("cassandra://host/journal?password=secret", "its setting 'password' is unknown"),
        ("cassandra://host/journal?local_dc=%ff", "local_dc is not UTF-8"),
    ],
)
def test_a_wrong_url_names_its_mistake_and_the_remedy(url: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_store_url(url)
    assert why in str(caught.value)
    assert "(allowed: sqlite:PATH or cassandra://HOST:PORT" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_wrong_url_shows_no_password() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_store_url("postgres://me:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("cassandra://host/journal", CassandraUrl(("host:9042",), "journal")),
        ("cassandra://a,b:19042/journal", CassandraUrl(("a:9042", "b:19042"), "journal")),
        ("CASSANDRA://[::1]:1/Journal_2", CassandraUrl(("[::1]:1",), "Journal_2")),
        ("cassandra://a/k?local_dc=dc%201", CassandraUrl(("a:9042",), "k", "dc 1")),
        ("cassandra://a/k?consistency=quorum&local_dc=b", CassandraUrl(("a:9042",), "k", "b", "QUORUM")),
    ],
)
def test_a_url_names_nodes_and_a_keyspace(url: str, parsed: CassandraUrl) -> None:
    assert parse_store_url(url) == parsed
    assert parse_store_url(str(parsed)) == parsed


def test_a_url_is_a_str() -> None:
    with pytest.raises(TypeError, match="a str, not PosixPath"):
        parse_store_url(Path("/srv/store.db"))  # type: ignore[arg-type]  # tested on purpose


def test_without_a_current_folder_a_relative_path_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Unavailable, match="no current folder"):
        parse_store_url("sqlite:store.db")
