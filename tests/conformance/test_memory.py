from cordwood.testing import LogConformance
from tests.conformance.under_memory import UnderMemory


class TestMemory(UnderMemory, LogConformance):
    pass
