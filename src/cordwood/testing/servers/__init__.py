"""Real servers for tests: their jars (`maven`), their processes (`process`, `keeper`) and their ports (`ports`).

Knows no particular server. A server's processes end with the process that started it, whatever ends that one.
May import `errors` and `java`.
"""
