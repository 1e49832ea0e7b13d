"""One log as a stream: a chain of plogs, of which only the last is open.

`stream` writes it: `write_queue` groups appends, `ack_gate` orders acks, `rollover` moves to the next plog, which
`spare` makes ahead. `recovery` finds the end after a crash, `reading` reads. It knows no topics and no folders.
"""
