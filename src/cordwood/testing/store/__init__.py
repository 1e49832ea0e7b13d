"""The conformance tests of every event store. `under_test` has the promises, fixtures and rows of all tests; each other
module is one theme, and `conformance` combines them. Imports `cordwood.store` and below.
"""
