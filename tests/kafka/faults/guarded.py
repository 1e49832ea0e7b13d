"""A server with logins, rights and certificates."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

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

_PASSWORDS = {"writer": "writer-s3cret", "reader": "reader-s3cret", "nobody": "nobody-s3cret"}
_STORE_PASSWORD = "store-s3cret"


def start(folder: Path) -> Broker:
    """Whoever comes by the plain listener may do everything; the users of the other two what they are allowed to."""
    users = " ".join(f'user_{name}="{password}"' for name, password in _PASSWORDS.items())
    modules, listener = "org.apache.kafka.common.security", "listener.name.sasl_plaintext"
    store = _key_store(folder)
    return Broker(
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


def url(broker: Broker) -> str:
    return f"kafka://{broker.address(SASL)}"


def login(user: str, password: str | None = None, mechanism: str = "PLAIN") -> dict[str, str]:
    """The settings of a user; a password other than its own is wrong."""
    return {
        "security.protocol": SASL,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or _PASSWORDS[user],
    }


def allow(broker: Broker, user: str, topic: str, *operations: AclOperation) -> None:
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
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_acls(allowed).values():
        future.result(30)


def add_scram_user(broker: Broker, user: str, password: str) -> None:
    """A user whose password the server keeps as a hash."""
    change = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(30)


def tls(folder: Path) -> Mapping[str, str]:
    """The settings of a client that knows the server's certificate."""
    return {"security.protocol": TLS, "ssl.ca.location": str(folder / "server.pem")}


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
