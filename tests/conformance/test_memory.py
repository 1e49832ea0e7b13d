from cordwood.testing import LogConformance
from tests.support.conformance.under_memory import UnderMemory


class TestMemory(UnderMemory, LogConformance):
    pass
