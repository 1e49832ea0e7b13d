"""A log as a chain of plogs, of which only the last is open.

`stream` writes it (group commit, switch to the next plog), `chain` says which plogs it is made of, `cursor` reads it,
`metadata` keeps the chains of all logs in a stream of its own. Imports `plog`, `coordinator`, `world`; knows no topics.
"""
