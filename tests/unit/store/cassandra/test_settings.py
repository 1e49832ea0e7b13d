"""The config of a store on Cassandra: a wrong one names its mistake, and no error shows a secret."""

from typing import Any

import pytest

from cordwood.errors import InvalidInput
from cordwood.store.cassandra.settings import parse_settings
from cordwood.store.url import CassandraUrl

URL = CassandraUrl(("c1:9042",), "journal")


def test_a_config_has_a_login_and_the_files_of_tls() -> None:
    config = {"username": "me", "password": "x", "tls.ca": "/ca", "tls.cert": "/cert", "tls.key": "/key"}
    settings = parse_settings(URL, config)
    assert (settings.username, settings.password) == ("me", "x")
    assert (settings.tls_ca, settings.tls_cert, settings.tls_key) == ("/ca", "/cert", "/key")
    assert "'x'" not in repr(settings)
    assert "/key" not in repr(settings)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"user": "secret"}, "config has user: it may have username, password, tls.ca, tls.cert, tls.key"),
        ({"username": "secret"}, "config has username and no password"),
        ({"password": "secret"}, "config has password and no username"),
        ({"username": "secret", "password": ""}, "password of config is empty"),
        ({"tls.cert": "secret"}, "config has tls.cert and no tls.ca"),
        ({"tls.ca": "a", "tls.key": "secret"}, "config has tls.key and no tls.cert"),
    ],
)
def test_a_wrong_config_names_its_mistake(config: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings(URL, config)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("config", [{"password": 5}, [("password", "x")], None])
def test_a_config_is_a_mapping_of_texts(config: Any) -> None:
    with pytest.raises(TypeError, match="a mapping of str to str"):
        parse_settings(URL, config)
