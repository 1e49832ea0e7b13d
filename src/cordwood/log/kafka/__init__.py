"""Logs on a real Kafka: the same interface, by librdkafka.

Start reading with `engine` and `log`, the view of a connection. They and `reader` are the only parts that use event
loops. `cluster` holds the clients that the process shares. `producer` and `delivery` are the path of a write; `reader`,
`cursor` and `messages` are the path of a read. `topics` and `offsets` ask the cluster. `settings` configures
librdkafka, and `errors` translates its errors. Below `engine`, `log` and `reader` everything blocks and uses no event
loop, so that programs without one can use it too.

Imports `log.interface`, `log.calls`, `records` and below. Only this package loads confluent_kafka.
"""
