"""The jars of Spark's own Kafka source, for comparisons; pyspark does not include them."""

from pathlib import Path

from cordwood.testing.servers.maven import Say, jar_folder, to_stderr

_POM = Path(__file__).with_name("spark.pom.xml")


def spark_jars(say: Say = to_stderr) -> str:
    """The jars of `format("kafka")`, as a value of Spark's setting `spark.jars`; fetches missing jars.

    ```python
    spark = pipeline.session("local[2]", {"spark.jars": spark_jars()})
    spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    ```
    """
    return ",".join(str(jar) for jar in sorted(jar_folder(_POM, "spark-kafka", say).glob("*.jar")))
