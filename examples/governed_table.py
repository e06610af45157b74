"""A reader of plates, and of fast cars alone, reads a log with Spark."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from maia.credentials import (
    FIRST_VERSION,
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SigningKey,
    TypeName,
    TypePattern,
    issue,
    parse_name_pattern,
)
from maia.events import Attribute, AttributeUid, Column, Frame, Instant, Kind
from maia.log.disk.event_log import EventLog
from maia.predicates import parse_predicate
from maia.spark import Reader
from maia.spark.governed.table import Access, governed
from maia.spark.session.session import spark_session
from maia.types import TypeDefinition, sign_definition, verify_definition
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Carried

now = Instant.parse("2026-11-15T12:00:00Z")
owner, camera, office = (SigningKey.from_seed(bytes([n, *range(31)])) for n in (1, 2, 3))
plate = Attribute("numberplate", AttributeUid("3265"), Kind.STRING)
speed = Attribute("speed", AttributeUid("7001"), Kind.INT)
name = TypeName(owner.principal, "uk.gov.Numberplate", FIRST_VERSION)
signed = sign_definition(TypeDefinition(name, None, (plate, speed)), owner)
event_type = verify_definition(signed, at=now)

# The owner lets the office see plates of cars that go faster than 50, and no speeds.
rule = parse_predicate("speed > 50", event_type.vocabulary)
pattern = TypePattern(owner.principal, parse_name_pattern("uk.gov.*"), None)
authority = Authority(pattern, frozenset({Action.SUBSCRIBE}), frozenset({plate.uid}), rule)
right = issue(AuthorisationCertificate(owner.principal, office.principal, False, authority, UNBOUNDED), owner)

# What a recording broker does: two sightings in one frame.
seen = {plate.uid: Column(Kind.STRING, ("AE05 XYZ", "KL12 ABC")), speed.uid: Column(Kind.INT, (63, 41))}
columns = frame_to_columns(Frame(2, seen))
frame = Carried(event_type.type_id, camera.principal.key, bytes(16), 1, int(now), 2, [], columns)

with TemporaryDirectory() as folder, spark_session() as spark:
    with closing(EventLog.open(Path(folder), now=now)) as log:
        log.append([encode(frame)], recorded_at=now)
        log.roll(now)
    reader = Reader(office.principal, (right,))
    table = governed(spark, folder, Access(reader, (event_type,)))
    print(table.collect())
