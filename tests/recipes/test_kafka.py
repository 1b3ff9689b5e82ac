"""The Kafka recipe against the broker for tests that librdkafka has; make test-kafka takes a real one."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from recipes.kafka_cases import killed_and_resumed, recipe

kafka = pytest.importorskip("confluent_kafka")
JARS = os.environ.get("SLIDEJOIN_KAFKA")


@pytest.fixture
def mock():
    """The producer that owns the broker, and the broker's address."""
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 3})
    address = next(iter(producer.list_topics(timeout=10).brokers.values()))
    yield producer, f"{address.host}:{address.port}"
    producer.flush(5)


def test_killed_and_resumed(mock, tmp_path):
    producer, broker = mock
    killed_and_resumed(broker, producer, tmp_path)


def test_offsets_are_those_of_the_partitions(mock):
    producer, broker = mock
    module = recipe()
    module.produce(producer, 0, 100)
    batches = [batch for batch in module.topic(broker, "trades", until_end=True)(0) if batch is not None]
    rows = [row for batch in batches for row in batch.rows]
    assert [row["trade"] for row in rows] == list(range(100))  # in the order of time over both partitions
    assert {n: end for n, end in batches[-1].offset.items() if end} == {"0": 50, "1": 50}
    again = module.topic(broker, "trades", until_end=True)({"0": 50, "1": 49})
    assert [row["trade"] for batch in again if batch for row in batch.rows] == [99]


@pytest.mark.skipif(not JARS, reason="needs a real broker: make test-kafka")
def test_a_real_broker(tmp_path):
    """KRaft mode: one process of Java is broker and controller, on loopback."""
    port, controller = free_port(), free_port()
    settings = tmp_path / "server.properties"
    settings.write_text(f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={tmp_path / "log"}
offsets.topic.replication.factor=1
num.partitions=2
""")
    java = [shutil.which("java") or "java", "-Xmx512m", "-cp", str(Path(JARS) / "jars" / "*")]
    identity = "c2xpZGVqb2luLXRlc3RzLQ"  # any 16 bytes in base64
    subprocess.run([*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", settings],
                   check=True, capture_output=True)  # fmt: skip
    log = (tmp_path / "broker.log").open("w")
    broker = subprocess.Popen([*java, "kafka.Kafka", settings], stdout=log, stderr=log)
    try:
        producer = kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        end = time.monotonic() + 120
        while True:
            try:
                producer.list_topics(timeout=1)
                break
            except kafka.KafkaException:
                assert broker.poll() is None, (tmp_path / "broker.log").read_text()
                assert time.monotonic() < end
        killed_and_resumed(f"127.0.0.1:{port}", producer, tmp_path, half=5000, kills=2)
    finally:
        broker.kill()
        broker.wait()
        log.close()


def free_port():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
