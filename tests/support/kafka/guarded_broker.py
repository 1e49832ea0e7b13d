"""A server with logins, rights and certificates."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from cordwood.testing.kafka import Broker

SASL = "SASL_PLAINTEXT"
TLS = "SSL"

PASSWORDS = {"writer": "writer-s3cret", "reader": "reader-s3cret", "nobody": "nobody-s3cret"}
_STORE_PASSWORD = "store-s3cret"


class Guarded:
    """A client of the plain listener may do everything; the users of the other two have rights."""

    def __init__(self, folder: Path) -> None:
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        modules, listener = "org.apache.kafka.common.security", "listener.name.sasl_plaintext"
        store = _key_store(folder)
        self._folder = folder
        self.broker = Broker(
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                f"{listener}.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {users};",
                f"{listener}.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
                "listener.name.ssl.ssl.keystore.type": "PKCS12",
                "listener.name.ssl.ssl.keystore.location": str(store),
                "listener.name.ssl.ssl.keystore.password": _STORE_PASSWORD,
            },
            listeners=[SASL, TLS],
        )

    @property
    def url(self) -> str:
        """Where users log in."""
        return f"kafka://{self.broker.address(SASL)}"

    @property
    def tls_url(self) -> str:
        return f"kafka://{self.broker.address(TLS)}"

    @property
    def tls(self) -> Mapping[str, str]:
        """The settings of a client that knows the server's certificate."""
        return {"security.protocol": TLS, "ssl.ca.location": str(self._folder / "server.pem")}

    def allow(self, user: str, topic: str, *operations: AclOperation) -> None:
        """Give a user rights on a topic."""
        allowed = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_acls(allowed).values():
            future.result(30)

    def add_scram_user(self, user: str, password: str) -> None:
        """A user whose password the server keeps as a hash."""
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
        )
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close()


def login(user: str, password: str | None = None, mechanism: str = "PLAIN") -> dict[str, str]:
    """The settings of a user; a password other than its own is wrong."""
    return {
        "security.protocol": SASL,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or PASSWORDS[user],
    }


def _key_store(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1, by Java's own tool."""
    store = folder / "server.p12"
    common = ["-keystore", str(store), "-storepass", _STORE_PASSWORD, "-alias", "server"]
    made = [
        "-dname",
        "CN=127.0.0.1",
        "-ext",
        "SAN=ip:127.0.0.1",
        "-keyalg",
        "EC",
        "-validity",
        "2",
        "-storetype",
        "PKCS12",
    ]
    certificate = str(folder / "server.pem")
    subprocess.run(["keytool", "-genkeypair", *common, *made], check=True, capture_output=True)
    subprocess.run(["keytool", "-exportcert", "-rfc", "-file", certificate, *common], check=True, capture_output=True)
    return store
