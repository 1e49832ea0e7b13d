"""Logs on a real Kafka: the same interface, by librdkafka.

A reader starts with `engine` and `log` (what a connection sees, the only part besides `reader` that knows event loops),
goes on to `cluster` (what the process shares), and from there to the two ways: `producer` and `delivery` for a write,
`reader`, `cursor` and `messages` for a read. `topics` and `offsets` ask the cluster; `settings` is what librdkafka is
told, `errors` what it tells us. Below `engine`, `log` and `reader` everything is blocking and knows no loop, so that it
serves programs without one too.

Imports `log.interface`, `log.bridge`, `records` and below. confluent_kafka is loaded by this package alone.
"""
