#!/usr/bin/env python3
"""Records golden frames: runs the scenarios below on a throw-away PostgreSQL and writes down what its walsender sends.

    record.py --bin DIR --work DIR --out DIR

`--bin` holds `initdb` and `postgres`, `--work` is an empty folder for the data, `--out` is where `<major>.frames` and
`<major>.expected` go. PostgreSQL refuses to run as root, so run this as somebody else. Python's standard library is
all that it needs.

`<major>.frames` has one frame a line, as the hexadecimal digits of what one CopyData carried, under the SQL that made
it. `<major>.expected` has the same frames in words, written by the decoder at the end of this file, which knows nothing
of walpost's: two decoders that were written apart have to agree.
"""

import argparse
import os
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass, field

SETUP = """
CREATE TABLE outbox (id bigint PRIMARY KEY, aggregatetype text NOT NULL, aggregateid varchar(20), payload text);
ALTER TABLE outbox ALTER payload SET STORAGE EXTERNAL;
CREATE SCHEMA "Order.Schema";
CREATE TABLE "Order.Schema"."Out Box" ("Id" integer PRIMARY KEY, "aggregate""type" text, "Straße" text);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN short_text AS varchar(20);
CREATE TABLE feelings (id integer PRIMARY KEY, mood mood, note short_text);
CREATE TABLE whole (id integer, note text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE by_index (id integer PRIMARY KEY, code integer NOT NULL, note text);
CREATE UNIQUE INDEX by_index_code ON by_index (code);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code;
CREATE TABLE orders (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE lines (order_id integer REFERENCES orders, line integer, PRIMARY KEY (order_id, line));
CREATE TABLE kinds (a boolean, b smallint, c integer, d bigint, e text, f varchar(9), g char(4), h name, i "char",
    j uuid, k json, l jsonb, m bytea, n timestamp(3), o timestamptz, p numeric(12,2));
CREATE TABLE wide (a1 int, a2 int, a3 int, a4 int, a5 int, a6 int, a7 int, a8 int, a9 int, a10 int, a11 int, a12 int,
    a13 int, a14 int, a15 int, a16 int, a17 int, a18 int);
CREATE TABLE events (kind text, id integer) PARTITION BY LIST (kind);
CREATE TABLE events_a PARTITION OF events FOR VALUES IN ('a');
CREATE TABLE events_b (id integer, kind text);
ALTER TABLE events ATTACH PARTITION events_b FOR VALUES IN ('b');
CREATE TABLE changing (id integer, note text);
CREATE TABLE unpublished (id integer);
CREATE TABLE secrets (id integer PRIMARY KEY, hidden text, shown text);
CREATE TABLE doubled (id integer PRIMARY KEY, twice integer GENERATED ALWAYS AS (id * 2) STORED);
CREATE PUBLICATION everything FOR TABLE outbox, "Order.Schema"."Out Box", feelings, whole, by_index, orders, lines,
    kinds, wide, events, changing, doubled WITH (publish_via_partition_root = true);
CREATE PUBLICATION inserts FOR TABLE outbox WITH (publish = 'insert');
SELECT pg_replication_origin_create('elsewhere')
"""
SETUP_SINCE_15 = "CREATE PUBLICATION columns FOR TABLE secrets (id, shown)"
SETUP_SINCE_18 = "CREATE PUBLICATION generated FOR TABLE doubled WITH (publish_generated_columns = stored)"


@dataclass
class Scenario:
    title: str
    sql: str
    publication: str = "everything"
    options: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)
    since: int = 14
    keepalives: bool = False

    def statements(self):
        return [statement.strip() for statement in self.sql.split(";") if statement.strip()]


KINDS = r"""
INSERT INTO kinds VALUES (true, -32768, -2147483648, -9223372036854775808, 'text', 'varchar', 'ab', 'name', 'c',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"b" : 1,  "a":2}', '{"b" : 1,  "a":2}', '\xdeadbeef5c7b7d00',
    '2019-03-24 20:52:59.1234', '2019-03-24 22:22:59.1+01:30', 12345.6);
INSERT INTO kinds (a, n, o) VALUES (false, '0044-03-15 12:00:00.5 BC', '0044-03-15 12:00:00.5+00 BC');
INSERT INTO kinds (b, n, o) VALUES (32767, '294276-12-31 23:59:59.999', '12345-06-07 08:09:10+00');
INSERT INTO kinds (m, n, o) VALUES ('', 'infinity', '-infinity')
"""

SCENARIOS = [
    Scenario(
        "one row",
        """BEGIN;
        INSERT INTO outbox VALUES (1, 'order', '7', '{"total": 1}');
        COMMIT""",
    ),
    Scenario(
        "rows of several tables, and the relation of each once",
        """BEGIN;
        INSERT INTO outbox VALUES (2, 'order', '7', 'a'), (3, 'order', '8', 'b');
        INSERT INTO whole VALUES (1, 'x');
        INSERT INTO outbox VALUES (4, 'order', '7', 'c');
        COMMIT;
        INSERT INTO outbox VALUES (5, 'order', '9', 'd')""",
    ),
    Scenario(
        "nulls and empty strings",
        r"INSERT INTO outbox VALUES (6, '', NULL, ''), (7, E'tab\tand é', '', NULL)",
    ),
    Scenario(
        "a value that is stored out of line",
        "INSERT INTO outbox VALUES (8, 'big', '1', repeat('0123456789abcdef', 150))",
    ),
    Scenario(
        "what is rolled back is not sent, whole or in part",
        """BEGIN;
        INSERT INTO outbox VALUES (20, 'lost', '1', 'x');
        ROLLBACK;
        BEGIN;
        INSERT INTO outbox VALUES (21, 'kept', '1', 'x');
        SAVEPOINT s;
        INSERT INTO outbox VALUES (22, 'lost', '1', 'x');
        ROLLBACK TO s;
        INSERT INTO outbox VALUES (23, 'kept', '1', 'x');
        COMMIT""",
    ),
    Scenario("quoted names", """INSERT INTO "Order.Schema"."Out Box" VALUES (1, 'a', 'ß')"""),
    Scenario("an enum and a domain", "INSERT INTO feelings VALUES (1, 'happy', 'sun'), (2, NULL, NULL)"),
    Scenario(
        "updates",
        """INSERT INTO by_index VALUES (1, 10, 'x');
        INSERT INTO whole VALUES (2, NULL);
        UPDATE outbox SET aggregateid = '2' WHERE id = 8;
        UPDATE outbox SET id = 9 WHERE id = 8;
        UPDATE whole SET note = 'y' WHERE id = 2;
        UPDATE by_index SET note = 'y';
        UPDATE by_index SET code = 11""",
    ),
    Scenario(
        "deletes",
        """DELETE FROM outbox WHERE id = 9;
        DELETE FROM whole WHERE id = 2;
        DELETE FROM by_index""",
    ),
    Scenario(
        "truncation",
        """INSERT INTO orders DEFAULT VALUES;
        TRUNCATE orders RESTART IDENTITY CASCADE;
        TRUNCATE whole;
        TRUNCATE outbox, wide""",
    ),
    Scenario(
        "an origin",
        """SELECT pg_replication_origin_session_setup('elsewhere');
        BEGIN;
        SELECT pg_replication_origin_xact_setup('A/BCDEF', '2020-02-02 02:02:02+00');
        INSERT INTO outbox VALUES (30, 'order', '1', 'x');
        COMMIT;
        SELECT pg_replication_origin_session_reset()""",
    ),
    Scenario(
        "logical messages",
        r"""BEGIN;
        SELECT pg_logical_emit_message(true, 'walpost', 'with the transaction');
        SELECT pg_logical_emit_message(false, 'walpost', 'at once');
        SELECT pg_logical_emit_message(true, '', '\x00ff'::bytea);
        INSERT INTO outbox VALUES (40, 'order', '1', 'x');
        COMMIT""",
        options={"messages": "true"},
    ),
    Scenario("logical messages that nobody asked for", "SELECT pg_logical_emit_message(true, 'walpost', 'unheard')"),
    Scenario("values of many kinds", KINDS),
    Scenario(
        "bytea in the escape form",
        r"INSERT INTO kinds (m) VALUES ('\xdeadbeef5c7b7d00')",
        settings={"bytea_output": "escape"},
    ),
    Scenario("values in binary form", KINDS, options={"binary": "true"}),
    Scenario("more than sixteen columns", "INSERT INTO wide VALUES (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)"),
    Scenario(
        "rows of one COPY share their LSN",
        r"""COPY outbox (id, aggregatetype) FROM PROGRAM 'printf "50\tcopy\n51\tcopy\n52\tcopy\n"'""",
    ),
    Scenario(
        "a partitioned table by its root",
        """INSERT INTO events VALUES ('a', 1), ('b', 2);
        INSERT INTO events_b (id, kind) VALUES (3, 'b')""",
    ),
    Scenario(
        "a table that changes its shape",
        """INSERT INTO changing VALUES (1, 'a');
        ALTER TABLE changing ADD more integer DEFAULT 5;
        INSERT INTO changing VALUES (2, 'b');
        ALTER TABLE changing DROP note;
        INSERT INTO changing VALUES (3, 6);
        ALTER TABLE changing RENAME more TO less;
        ALTER TABLE changing ALTER less TYPE text;
        INSERT INTO changing VALUES (4, 'c')""",
    ),
    Scenario("a transaction of other tables", "INSERT INTO unpublished VALUES (1)"),
    Scenario(
        "a publication of inserts",
        """BEGIN;
        INSERT INTO outbox VALUES (60, 'order', '1', 'x');
        UPDATE outbox SET payload = 'y' WHERE id = 60;
        DELETE FROM outbox WHERE id = 60;
        COMMIT;
        TRUNCATE outbox""",
        publication="inserts",
    ),
    Scenario("a generated column stays at home", "INSERT INTO doubled VALUES (1)"),
    Scenario(
        "a column list",
        "INSERT INTO secrets VALUES (1, 'hidden', 'shown')",
        publication="columns",
        since=15,
    ),
    Scenario("a generated column is published", "INSERT INTO doubled VALUES (2)", publication="generated", since=18),
    Scenario("keepalives", "", keepalives=True, settings={"wal_sender_timeout": "2s"}),
]

# As the relay sets them: no default of a database or a role changes a byte.
SETTINGS = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "TimeZone": "UTC",
}


class Connection:
    """A connection without a password, for simple queries and for CopyData."""

    def __init__(self, port, **parameters):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        parameters = {"user": "postgres", "database": "postgres", **parameters}
        body = b"".join(word.encode() + b"\0" for pair in parameters.items() for word in pair) + b"\0"
        self.socket.sendall(struct.pack(">II", len(body) + 8, 3 << 16) + body)
        self.until(b"Z")

    def receive(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the server closed the connection")
            data += piece
        return data

    def message(self):
        tag, length = struct.unpack(">cI", self.receive(5))
        body = self.receive(length - 4)
        if tag == b"E":
            raise RuntimeError(body.replace(b"\0", b" ").decode())
        return tag, body

    def until(self, last):
        rows = []
        while True:
            tag, body = self.message()
            if tag == b"D":
                length = struct.unpack(">i", body[2:6])[0]
                rows.append(body[6 : 6 + max(length, 0)].decode())
            if tag == last:
                return rows

    def query(self, sql, last=b"Z"):
        self.send(b"Q", sql.encode() + b"\0")
        return self.until(last)

    def send(self, tag, body):
        self.socket.sendall(tag + struct.pack(">I", len(body) + 4) + body)

    def ask_for_keepalive(self):
        self.send(b"d", struct.pack(">cQQQqB", b"r", 0, 0, 0, 0, 1))

    def close(self):
        self.socket.close()


class Server:
    def __init__(self, binaries, work):
        self.port = free_port()
        data = os.path.join(work, "data")
        initdb = [f"{binaries}/initdb", "-D", data, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "-N"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL)
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": work}
        options |= {"wal_level": "logical", "fsync": "off", "autovacuum": "off", "shared_buffers": "16MB"}
        arguments = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with open(os.path.join(work, "log"), "wb") as log:
            self.process = subprocess.Popen([f"{binaries}/postgres", "-D", data, *arguments], stderr=log)

    def connect(self, **parameters):
        deadline = time.monotonic() + 30
        while True:
            try:
                return Connection(self.port, **parameters)
            except (OSError, RuntimeError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def record(server, sql, scenario):
    """Runs a scenario's SQL and gives back the frames that the walsender made of it."""
    settings = SETTINGS | scenario.settings
    options = {"proto_version": "1", "publication_names": scenario.publication, **scenario.options}
    stream = server.connect(replication="database", **settings)
    stream.query("CREATE_REPLICATION_SLOT golden TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT")
    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    stream.query(f"START_REPLICATION SLOT golden LOGICAL 0/0 ({listed})", last=b"W")
    for statement in scenario.statements():
        sql.query(statement)
    target = lsn_from_text(sql.query("SELECT pg_current_wal_flush_lsn()")[0])
    frames = keepalives(stream) if scenario.keepalives else changes(stream, target)
    stream.close()
    while sql.query("SELECT count(*) FROM pg_replication_slots") != ["0"]:
        time.sleep(0.02)
    return frames


def changes(stream, target):
    """Everything up to the target but keepalives, which come as the clock will have it."""
    frames = []
    stream.ask_for_keepalive()
    while True:
        frame = copy_data(stream)
        if frame[:1] == b"w":
            frames.append(frame)
        elif struct.unpack(">Q", frame[1:9])[0] >= target:
            return frames
        else:
            time.sleep(0.02)
            stream.ask_for_keepalive()


def keepalives(stream):
    """One that was asked for, and one in which the server asks: it does so after half of its timeout in silence."""
    stream.ask_for_keepalive()
    found = {}
    while len(found) < 2:
        frame = copy_data(stream)
        if frame[:1] == b"k":
            found.setdefault(frame[-1], frame)
    return [found[0], found[1]]


def copy_data(stream):
    tag, body = stream.message()
    assert tag == b"d", tag
    return body


def lsn_from_text(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


class Decoder:
    """Puts a frame into words."""

    def __init__(self, frame):
        self.rest = frame

    def take(self, format):
        size = struct.calcsize(">" + format)
        values = struct.unpack(">" + format, self.rest[:size])
        self.rest = self.rest[size:]
        return values if len(values) > 1 else values[0]

    def lsn(self):
        return "%X/%X" % self.take("II")

    def bytes(self, count):
        taken, self.rest = self.rest[:count], self.rest[count:]
        assert len(taken) == count
        return taken

    def name(self):
        name, _, self.rest = self.rest.partition(b"\0")
        return quoted(name)

    def frame(self):
        if self.take("c") == b"k":
            lsn, (time, reply) = self.lsn(), self.take("qB")
            words = f"keepalive wal_end={lsn} time={time} reply_requested={reply}"
        else:
            start, end, time = self.lsn(), self.lsn(), self.take("q")
            words = f"xlogdata wal_start={start} wal_end={end} time={time}: {self.message()}"
        assert not self.rest, self.rest
        return words

    def message(self):
        tag = self.take("c").decode()
        return getattr(self, f"message_{tag}")()

    def message_B(self):
        return "begin final_lsn=%s commit_time=%d xid=%d" % (self.lsn(), *self.take("qI"))

    def message_C(self):
        flags = self.take("B")
        return f"commit flags={flags} commit_lsn={self.lsn()} end_lsn={self.lsn()} commit_time={self.take('q')}"

    def message_O(self):
        return f"origin commit_lsn={self.lsn()} name={self.name()}"

    def message_R(self):
        id, schema, name = self.take("I"), self.name(), self.name()
        identity, count = self.take("ch")
        columns = []
        for _ in range(count):
            flags, column = self.take("B"), self.name()
            columns.append("%s flags=%d type=%d modifier=%d" % (column, flags, *self.take("Ii")))
        return f"relation {id} {schema}.{name} identity={identity.decode()} ({', '.join(columns)})"

    def message_Y(self):
        return f"type {self.take('I')} {self.name()}.{self.name()}"

    def message_I(self):
        relation, tag = self.take("Ic")
        assert tag == b"N"
        return f"insert {relation} new {self.tuple()}"

    def message_U(self):
        relation, tag = self.take("Ic")
        old = ""
        if tag != b"N":
            old = f"{'key' if tag == b'K' else 'old'} {self.tuple()} "
            tag = self.take("c")
        assert tag == b"N"
        return f"update {relation} {old}new {self.tuple()}"

    def message_D(self):
        relation, tag = self.take("Ic")
        return f"delete {relation} {'key' if tag == b'K' else 'old'} {self.tuple()}"

    def message_T(self):
        count, options = self.take("iB")
        relations = [str(self.take("I")) for _ in range(count)]
        return f"truncate options={options} ({', '.join(relations)})"

    def message_M(self):
        flags, lsn, prefix = self.take("B"), self.lsn(), self.name()
        return f"message flags={flags} lsn={lsn} prefix={prefix} content={quoted(self.bytes(self.take('i')))}"

    def tuple(self):
        return f"({', '.join(self.cell() for _ in range(self.take('h')))})"

    def cell(self):
        kind = self.take("c")
        if kind in b"nu":
            return "null" if kind == b"n" else "unchanged"
        value = quoted(self.bytes(self.take("i")))
        return value if kind == b"t" else f"binary {value}"


def quoted(value):
    """Printable ASCII as it is, the rest escaped; of what is long, the beginning, the end and the length."""
    if len(value) > 64:
        return f"{quoted(value[:16])}..{quoted(value[-16:])} of {len(value)} bytes"
    known = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return '"' + "".join(known.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in value) + '"'


def commented(text):
    return "".join(f"#     {line.strip()}\n" for line in text.strip().splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--bin", "--work", "--out"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    server = Server(arguments.bin, arguments.work)
    try:
        sql = server.connect(**SETTINGS)
        version = sql.query("SHOW server_version")[0]
        major = int(version.split(".")[0])
        setups = [SETUP, *([SETUP_SINCE_15] if major >= 15 else []), *([SETUP_SINCE_18] if major >= 18 else [])]
        for statement in ";\n".join(setup.strip() for setup in setups).split(";\n"):
            sql.query(statement)
        head = f"# PostgreSQL {version}, recorded by record.py, after this:\n"
        head += "".join(commented(setup.strip() + ";") for setup in setups)
        frames_text, expected_text = head, f"# {major}.frames in words, by the decoder of record.py\n"
        for scenario in SCENARIOS:
            if major < scenario.since:
                continue
            frames = record(server, sql, scenario)
            options = {"publication_names": scenario.publication, **scenario.options, **scenario.settings}
            asked = ", ".join(f"{name} '{value}'" for name, value in options.items())
            statements = "".join(commented(statement + ";") for statement in scenario.statements())
            frames_text += f"\n== {scenario.title}\n# {asked}\n{statements}"
            frames_text += "".join(f"{frame.hex()}\n" for frame in frames)
            expected_text += f"\n== {scenario.title}\n" + "".join(f"{Decoder(frame).frame()}\n" for frame in frames)
        for ending, text in (("frames", frames_text), ("expected", expected_text)):
            with open(os.path.join(arguments.out, f"{major}.{ending}"), "w", encoding="utf-8") as file:
                file.write(text)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
