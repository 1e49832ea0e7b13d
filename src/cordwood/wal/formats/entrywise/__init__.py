"""Formats with one record per entry and no owner records: `rfc` and `horaedb`."""
