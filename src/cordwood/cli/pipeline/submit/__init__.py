"""The program that spark-submit runs. It has a folder of its own, since Python looks for modules next to a program."""
