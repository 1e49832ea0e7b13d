"""Spark as it is deployed: processes of its own for everything, and our package only as a file that is shipped."""

import json
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import cordwood
from cordwood import Batch
from tests.spark.conftest import Load
from tests.support.spark.cluster import cluster, environment, interpreter_without_cordwood, package, submit
from tests.support.spark.written_rows import records, staged

JOB = """
import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cordwood import pipeline

url, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
pipeline.register(spark)
frame = spark.read.format("cordwood").options(url=url, topic="events", includeHeaders="true", minPartitions="4").load()
rows = frame.select(F.to_json(F.struct("*")).alias("json")).collect()
frame.drop("partition").write.format("cordwood").mode("append").options(url=url, topic="copy").save()
folders = spark.sparkContext.parallelize(range(2), 2).map(lambda _: os.getcwd()).collect()
with open(output, "w") as file:
    json.dump({"rows": [row.json for row in rows], "executors": len(set(folders))}, file)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_cluster_reads_and_writes_with_the_package_shipped_by_py_files(
    tmp_path: Path, folder: Path, load: Load
) -> None:
    python = interpreter_without_cordwood(tmp_path / "python")
    hidden = subprocess.run(
        [str(python), "-c", "import pyspark, pyarrow, crc32c; import cordwood"],
        env=environment({}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert hidden.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'cordwood'"
    with cordwood.sync.connect(folder) as cw:
        cw.create_topic("events", partitions=2)
        cw.create_topic("copy")
        for partition in range(2):
            for number in range(50):
                name = f"{partition}.{number}"
                batch = Batch.of([name.encode()], keys=[None], headers=[[("n", name.encode())]], timestamps=[number])
                cw.log("events", partition).append(batch)
    (tmp_path / "job").mkdir()
    job = tmp_path / "job" / "job.py"
    job.write_text(JOB)
    with cluster(tmp_path / "cluster") as master:
        submit(master, python, package(tmp_path / "cordwood.zip"), job, f"file:{folder}", str(tmp_path / "found"))
    found = json.loads((tmp_path / "found").read_text())
    assert found["executors"] == 2
    here = load(topic="events", includeHeaders="true").select(F.to_json(F.struct("*")).alias("json")).collect()
    assert sorted(found["rows"]) == sorted(row.json for row in here)
    assert len(here) == 100
    originals = [record for partition in range(2) for record in records(folder, "events", partition)]
    assert sorted(map(str, records(folder, "copy"))) == sorted(map(str, originals))
    assert staged(folder) == []
