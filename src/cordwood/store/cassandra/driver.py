"""The one module that knows `cassandra-driver`: connecting, preparing, sending, and its errors as ours.

Everything that another driver would do otherwise is here. Requests end in callbacks on the driver's own thread; a
`Link` belongs to no event loop.
"""

import socket
import ssl
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, Final, NamedTuple

from cassandra import (
    AlreadyExists,
    AuthenticationFailed,
    ConsistencyLevel,
    CoordinationFailure,
    InvalidRequest,
    OperationTimedOut,
    RequestExecutionException,
    Timeout,
    Unauthorized,
    UnresolvableContactPoints,
)
from cassandra import Unavailable as TooFewReplicas
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionException, ProtocolError
from cassandra.policies import DCAwareRoundRobinPolicy, ExponentialReconnectionPolicy, RetryPolicy, TokenAwarePolicy
from cassandra.protocol import ErrorMessage, IsBootstrappingErrorMessage, OverloadedErrorMessage, ServerError
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, BoundStatement, PreparedStatement, tuple_factory
from cassandra.util import Date, Duration

from cordwood import errors
from cordwood.errors import CordwoodError, Corrupt, InvalidInput, NotFound, TooLarge

from .settings import Settings

UNSET: Final = UNSET_VALUE
"""Binds nothing: no cell is written, not even a null."""

# With a lower version a column cannot be left unset.
_PROTOCOLS: Final = (5, 4)
_DAY_NS: Final = 86_400_000_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

Row = tuple[Any, ...]
Ended = Callable[["Rows | None", BaseException | None], None]


class Rows(NamedTuple):
    """Rows of an answer, and where the next ones begin; None: these are the last."""

    rows: list[Row]
    state: bytes | None


class Bound(NamedTuple):
    """A statement with its values, as bytes; `size` is about what it takes on the wire."""

    statement: BoundStatement
    size: int


class Statement:
    """A statement that a link has prepared; `bind` encodes values for it."""

    __slots__ = ("_packs", "_prepared", "cql")

    def __init__(self, cql: str, prepared: PreparedStatement) -> None:
        self.cql = cql
        self._prepared = prepared
        columns = prepared.column_metadata or []
        self._packs = [(column.name, _pack_of(column.type.cql_parameterized_type())) for column in columns]

    def bind(self, values: Sequence[Any]) -> Bound:
        """Encode the values, in the order of the statement; InvalidInput or TypeError names the column of a wrong one.

        The driver's own way takes ten times as long.
        """
        packed: list[Any] = []
        size = 32
        for (name, pack), value in zip(self._packs, values, strict=True):
            if value is None or value is UNSET:
                packed.append(value)
                continue
            try:
                encoded = pack(value)
            except UnicodeEncodeError as error:
                raise InvalidInput(f"{name}: a text has a lone surrogate in it, which is no character") from error
            except (struct.error, OverflowError) as error:
                if isinstance(value, int):
                    raise InvalidInput(f"{name} is {value}, which a store cannot keep: {error}") from error
                raise TypeError(f"{name} is of the wrong type: {error}") from error
            except (AttributeError, ValueError) as error:
                raise TypeError(f"{name} is of the wrong type: {error}") from error
            packed.append(encoded)
            size += len(encoded) + 4
        statement = BoundStatement(self._prepared)
        statement.values = packed
        return Bound(statement, size)


def batch(statements: Sequence[Bound], *, parts: bool = False) -> Bound:
    """Statements as one: they are applied together, or not at all. `parts`: they are of several partitions."""
    if len(statements) == 1:
        return statements[0]
    # One partition is one mutation; several need the log of batches.
    joined = BatchStatement(BatchType.LOGGED if parts else BatchType.UNLOGGED)
    for bound in statements:
        joined.add(bound.statement)
    joined.is_idempotent = True
    return Bound(joined, sum(bound.size for bound in statements))


class Link:
    """Connections to all nodes of a cluster, of one user."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        """Connect. Blocks."""
        self.name = str(settings.url)
        self._statements: dict[str, Statement] = {}
        context = _tls_context(settings)
        level = getattr(ConsistencyLevel, settings.url.consistency)
        profile = ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(settings.url.local_dc or "")),
            retry_policy=_NextHost(),
            consistency_level=level,
            serial_consistency_level=(
                ConsistencyLevel.LOCAL_SERIAL
                if settings.url.consistency.startswith("LOCAL")
                else ConsistencyLevel.SERIAL
            ),
            request_timeout=timeout,
            row_factory=tuple_factory,
        )
        for version in _PROTOCOLS:
            self._cluster = Cluster(
                contact_points=settings.hosts,
                port=settings.hosts[0][1],
                protocol_version=version,
                execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                auth_provider=(
                    None if settings.username is None else PlainTextAuthProvider(settings.username, settings.password)
                ),
                ssl_context=context,
                # Without it a batch of 50 KiB waits 48 ms for the acknowledgement of its first part.
                sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
                # A node that hangs is left out after ten seconds.
                idle_heartbeat_interval=5,
                idle_heartbeat_timeout=5,
                connect_timeout=min(timeout, 10.0),
                control_connection_timeout=min(timeout, 10.0),
                reconnection_policy=ExponentialReconnectionPolicy(0.2, 10.0, None),
                application_name="cordwood",
            )
            try:
                self._session = self._cluster.connect()
                return
            except BaseException as error:
                self._cluster.shutdown()
                if version != _PROTOCOLS[-1] and _is_protocol(error):
                    continue
                raise translate(error, self.name) from error

    # --- blocking: opening, and the schema

    def run(self, cql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement that is not prepared. Blocks."""
        try:
            return list(self._session.execute(cql, tuple(values) or None))
        except BaseException as error:
            raise translate(error, self.name) from error

    def run_bound(self, bound: Bound) -> list[Row]:
        """Run a prepared statement. Blocks."""
        try:
            return list(self._session.execute(bound.statement))
        except BaseException as error:
            raise translate(error, self.name) from error

    def prepare(self, cql: str) -> Statement:
        """Prepare a statement, once. Blocks."""
        statement = self._statements.get(cql)
        if statement is None:
            try:
                prepared = self._session.prepare(cql)
            except BaseException as error:
                raise translate(error, self.name) from error
            prepared.is_idempotent = True
            statement = self._statements[cql] = Statement(cql, prepared)
        return statement

    def prepared(self, cql: str) -> Statement | None:
        """A statement, if it is prepared."""
        return self._statements.get(cql)

    def nodes_by_dc(self) -> dict[str, int]:
        """How many nodes each data centre has."""
        counts: dict[str, int] = {}
        for host in self._cluster.metadata.all_hosts():
            counts[host.datacenter] = counts.get(host.datacenter, 0) + 1
        return counts

    def local_dc(self) -> str:
        """The data centre of the nodes that the driver found first, where the url names none."""
        for host in self._session.get_pools():
            return str(host.host.datacenter)
        return next(iter(self.nodes_by_dc()))

    # --- with callbacks

    def send(
        self, bound: Bound, timeout: float, ended: Ended, fetch_size: int | None = None, state: bytes | None = None
    ) -> None:
        """Send a request; `ended` is called once, on the driver's thread or at once on this one."""
        statement = bound.statement
        if fetch_size is not None:
            statement.fetch_size = fetch_size
        try:
            future = self._session.execute_async(statement, timeout=timeout, paging_state=state)
        except BaseException as error:
            ended(None, error)
            return
        future.add_callbacks(
            callback=lambda rows: ended(Rows(rows or [], future._paging_state), None),
            errback=lambda error: ended(None, error),
        )

    def close(self) -> None:
        """Close all connections. Blocks."""
        with suppress(Exception):
            self._cluster.shutdown()


class _NextHost(RetryPolicy):  # type: ignore[misc]  # the driver has no types
    """A node that is gone costs no request: the next one gets it. Our own loop repeats what is late, within limits."""

    def on_read_timeout(self, *_: Any, **__: Any) -> Any:
        return self.RETHROW, None

    def on_write_timeout(self, *_: Any, **__: Any) -> Any:
        return self.RETHROW, None

    def on_unavailable(self, query: Any, consistency: Any, required: Any, alive: Any, retry_num: int) -> Any:
        return (self.RETRY_NEXT_HOST, consistency) if retry_num == 0 else (self.RETHROW, None)

    def on_request_error(self, query: Any, consistency: Any, error: Any, retry_num: int) -> Any:
        return (self.RETRY_NEXT_HOST, consistency) if retry_num < 3 else (self.RETHROW, None)


def _tls_context(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_ca is None:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca)
        if settings.tls_cert is not None:
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise errors.Unavailable(
            f"{settings.url}: the files for TLS cannot be used: {error}: check tls.ca, tls.cert and tls.key",
            reason="tls",
        ) from error
    return context


# --- values


def _pack_of(kind: str) -> Callable[[Any], bytes]:
    kind = kind.replace("varchar", "text").replace(" ", "")  # two names of one type
    found = _PACKS.get(kind.removeprefix("frozen<").removesuffix(">") if kind.startswith("frozen<") else kind)
    assert found is not None, f"no value of a store has the type {kind}"
    return found


def _pack_text(value: str) -> bytes:
    return value.encode()


def _pack_blob(value: bytes) -> bytes:
    return memoryview(value).tobytes()


_pack_bigint = struct.Struct(">q").pack
_pack_int = struct.Struct(">i").pack


def _pack_uuid(value: str) -> bytes:
    return uuid.UUID(value).bytes


def _pack_date(value: date) -> bytes:
    return struct.pack(">I", value.toordinal() - _EPOCH_DAY + (1 << 31))


def _pack_duration(value: int) -> bytes:
    days, rest = divmod(abs(value), _DAY_NS)
    sign = -1 if value < 0 else 1
    return bytes(_duration_type.serialize(Duration(0, sign * days, sign * rest), 5))


def _pack_texts(values: Sequence[str]) -> bytes:
    return struct.pack(">i", len(values)) + b"".join(map(_sized, values))


def _pack_text_map(values: Mapping[str, str]) -> bytes:
    pairs = (_sized(name) + _sized(value) for name, value in values.items())
    return struct.pack(">i", len(values)) + b"".join(pairs)


def _pack_bigints(values: Sequence[int]) -> bytes:
    return struct.pack(">i", len(values)) + b"".join(struct.pack(">iq", 8, value) for value in values)


def _sized(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


from cassandra.cqltypes import DurationType as _duration_type  # noqa: E402

_PACKS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "text": _pack_text,
    "blob": _pack_blob,
    "bigint": _pack_bigint,
    "timestamp": _pack_bigint,
    "int": _pack_int,
    "uuid": _pack_uuid,
    "date": _pack_date,
    "duration": _pack_duration,
    "set<text>": _pack_texts,
    "map<text,text>": _pack_text_map,
    "list<bigint>": _pack_bigints,
}


def days_of(value: Any) -> int | None:
    """A stored date as an ordinal; None for null."""
    return None if value is None else int(value.days_from_epoch) + _EPOCH_DAY


def nanoseconds_of(value: Any) -> int | None:
    """A stored duration in nanoseconds, without its months, as the Scala library reads it; None for null."""
    return None if value is None else int(value.days) * _DAY_NS + int(value.nanoseconds)


# --- errors


def _is_protocol(error: BaseException) -> bool:
    failed = error.errors.values() if isinstance(error, NoHostAvailable) and error.errors else [error]
    return any(isinstance(each, ProtocolError) or "protocol version" in str(each).lower() for each in failed)


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed in a moment: a node is late, busy or away."""
    if isinstance(error, NoHostAvailable):
        return not any(isinstance(each, AuthenticationFailed | ssl.SSLError) for each in _errors_of(error))
    return isinstance(
        error,
        Timeout
        | TooFewReplicas
        | CoordinationFailure
        | OperationTimedOut
        | ConnectionException
        | OverloadedErrorMessage
        | IsBootstrappingErrorMessage
        | ServerError
        | OSError,
    )


def translate(error: BaseException, name: str) -> BaseException:
    """The error to raise instead of one of the driver's; errors of ours, and cancellation, stay as they are."""
    if isinstance(error, CordwoodError | TypeError) or not isinstance(error, Exception):
        return error
    if isinstance(error, NoHostAvailable):
        return _of_no_host(error, name)
    if isinstance(error, AuthenticationFailed | Unauthorized):
        return errors.Unavailable(
            f"{name}: {_text(error)}: check username and password, and the rights on the keyspace", reason="permission"
        )
    if isinstance(error, Timeout | OperationTimedOut):
        return errors.Timeout(f"{name}: {_text(error)}: too few nodes answered in time")
    if isinstance(error, TooFewReplicas):
        return errors.Unavailable(f"{name}: {_text(error)}: start the nodes that are away", reason="unreachable")
    if isinstance(error, ConnectionException | UnresolvableContactPoints | OSError):
        return errors.Unavailable(f"{name}: {_text(error)}: check that its nodes run", reason="unreachable")
    if isinstance(error, InvalidRequest | ErrorMessage | AlreadyExists | CoordinationFailure):
        return _of_request(error, name)
    if isinstance(error, RequestExecutionException):
        return errors.Unavailable(f"{name}: {_text(error)}", reason="failed")
    return errors.Unavailable(f"{name}: the driver failed: {error!r}", reason="failed")


def _of_no_host(error: NoHostAvailable, name: str) -> CordwoodError:
    failed = _errors_of(error)
    for each in failed:
        if isinstance(each, AuthenticationFailed | Unauthorized):
            return errors.Unavailable(
                f"{name}: the login was refused: check username and password: {_text(each)}", reason="permission"
            )
        if isinstance(each, ssl.SSLError):
            return errors.Unavailable(
                f"{name}: TLS failed: {each}: check tls.ca, and that the nodes have certificates of these names",
                reason="tls",
            )
    said = "; ".join(sorted({_text(each) for each in failed})) or "no node is known"
    return errors.Unavailable(f"{name}: no node can be reached: {said}: check that they run", reason="unreachable")


def _of_request(error: BaseException, name: str) -> CordwoodError:
    said = _text(error)
    small = said.lower()
    if any(word in small for word in ("too large", "oversized", "too big", "exceeds allowed maximum")):
        return TooLarge(f"{name}: {said}: a node takes about 16 MB at once")
    if "keyspace" in small and ("does not exist" in small or "unknown" in small):
        return NotFound(f"{name}: {said}: open the store once for writing")
    if "unconfigured table" in small or ("table" in small and "does not exist" in small):
        return Corrupt(f"{name}: {said}: a table of the store is missing")
    if "unauthorized" in small or ("has no " in small and "permission" in small):
        return errors.Unavailable(f"{name}: {said}: check the rights on the keyspace", reason="permission")
    return errors.Unavailable(f"{name}: {said}", reason="failed")


def _errors_of(error: NoHostAvailable) -> list[BaseException]:
    found = error.errors
    return list(found.values()) if isinstance(found, dict) else list(found or [])


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


__all__ = [
    "UNSET",
    "Bound",
    "Date",
    "Link",
    "Row",
    "Rows",
    "Statement",
    "batch",
    "days_of",
    "may_pass",
    "nanoseconds_of",
    "translate",
]
