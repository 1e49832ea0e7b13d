"""Real servers for tests: their jars (`maven`, `java`), their processes (`process`, `keeper`), their ports (`ports`).

It is not specific to any server. A server's processes end with the process that started it, also if that is killed.
May import `errors` and `java`.
"""
