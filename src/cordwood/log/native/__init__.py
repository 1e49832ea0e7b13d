"""Cordwood's own log engine; today embedded: a folder, one writing process, readers beside it.

`embedded` is the way in. Below it: `folder` (what a process has open), `engine` and `view` (a folder for writing, and
for reading only), `published` (what one tells the other), `stream`, `plog`, `coordinator`, `world`.
"""
