"""From librdkafka's errors to ours: the only module that distinguishes error codes."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from cordwood.errors import (
    Conflict,
    CordwoodError,
    InvalidInput,
    NotFound,
    Outcome,
    Reason,
    Timeout,
    TooLarge,
    Unavailable,
)

from .settings import Settings

_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
_TIMED_OUT = {KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_INVALID = {
    KafkaError._INVALID_ARG,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
}
_NO_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "rights on the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "rights on the cluster",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "rights on the consumer group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "rights on the transactional id",
    KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "rights by its delegation token",
}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
_NOT_LET_IN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}

_AWAY = {KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND}

TRANSIENT = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY_BROKER,  # the client has forgotten the broker that it had asked
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NOT_CONTROLLER,
}
"""Errors that pass by themselves, such as the change of a leader."""


def kafka_error(error: KafkaException) -> KafkaError:
    """The KafkaError of a KafkaException."""
    cause: Any = error.args[0] if error.args else None
    return cause if isinstance(cause, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def is_refused(error: KafkaError) -> bool:
    """Whether the client or the broker has checked a record, and will never accept it."""
    return error.code() in _TOO_LARGE or error.code() == KafkaError._INVALID_ARG


def is_missing(error: KafkaError) -> bool:
    """Whether there is no such topic or partition."""
    return error.code() in _MISSING


def is_locked_out(error: KafkaError) -> bool:
    """Whether the login was refused."""
    return error.code() in _NOT_LET_IN


def _reason_of(code: int) -> Reason:
    if code == KafkaError._SSL:
        return "tls"
    if code in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return "version"
    return "unreachable" if code in TRANSIENT or code in _AWAY else "failed"


def translate(error: KafkaError, what: str, settings: Settings, outcome: Outcome | None = None) -> CordwoodError:
    """The error to raise; `what` names the call and its topic or log."""
    code = error.code()
    said = settings.masked(error.str())
    if code in _MISSING:
        return NotFound(
            f"{what}: there is no such topic or partition ({said}): create_topic makes one", outcome=outcome
        )
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return Conflict(f"{what}: the topic exists: pass exist_ok=True to leave it as it is", outcome=outcome)
    if code in _TIMED_OUT:
        return Timeout(f"{what}: Kafka did not answer within the time ({said}): try again", outcome=outcome)
    if code in _TOO_LARGE:
        return TooLarge(f"{what}: {said}: split it, or raise the topic's max.message.bytes", outcome=outcome)
    if code == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in said:
        # The same code as for more replicas than brokers; but here the brokers exist, and are out of contact.
        return Unavailable(f"{what}: {said}: try again", outcome=outcome, reason="unreachable")
    if code in _INVALID:
        return InvalidInput(f"{what}: {said}", outcome=outcome)
    if code in _NO_RIGHTS:
        return Unavailable(
            f"{what}: this user lacks {_NO_RIGHTS[code]} ({said}): ask for them, or connect as another",
            outcome=outcome,
            reason="permission",
        )
    if code in _NOT_LET_IN:
        return Unavailable(
            f"{what}: Kafka refused the login ({said}): check the login in the settings",
            outcome=outcome,
            reason="permission",
        )
    if code in _PURGED:
        return Unavailable(
            f"{what}: it was in flight when the client was replaced, and may be written: read the log's end",
            outcome=outcome,
            reason="failed",
        )
    return Unavailable(f"{what}: {said}", outcome=outcome, reason=_reason_of(code))
