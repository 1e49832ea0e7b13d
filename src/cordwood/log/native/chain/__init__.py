"""The plogs that make up a log: the chain, the records that change it, how far it is durable. Imports `plog` only."""
