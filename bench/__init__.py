"""Benchmarks: ratios within one run, against the bare system calls or the peer that a reader would compare with.

`python -m bench` prints the table and writes it to `bench/results/`.
"""
