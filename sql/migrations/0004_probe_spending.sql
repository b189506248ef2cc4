-- What the probes of a target have cost today, booked before each request is sent: table probe is written after
-- the answer, and a process that is killed in between has spent the money all the same.

CREATE TABLE probe_spending (          -- grain: one target and currency; the day that it was last probed on
  target   VARCHAR NOT NULL,
  currency VARCHAR NOT NULL,
  day      DATE NOT NULL,              -- UTC
  spent    DECIMAL(38, 9) NOT NULL,    -- a request in flight, or of unknown cost, counts as the most it may cost
  PRIMARY KEY (target, currency)
);
