"""One folder of logs: one writing process, and readers alongside it.

`process` opens the folder, for writing or for reading, and shares it among the connections of the process. `lock` keeps
other writers out. `writer` has the topics and logs (`written_log`) of the writing process, `retention` decides how far
they are trimmed, and `staged` commits records that other processes prepared. `publisher` publishes how far each log is
durable, in the files of `published`; `observer` reads those.
"""
