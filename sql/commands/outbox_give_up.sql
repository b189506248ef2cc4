-- purpose: end what could not be told for too long after its end, visibly; what still fires goes on waiting
-- parameters: ended_before, why
-- grain of the answer: message
UPDATE outbox SET state = 'failed', last_error = $why || coalesce(': ' || last_error, '')
WHERE message_id IN (
  SELECT o.message_id FROM outbox o LEFT JOIN incident i USING (incident_id)
  WHERE o.state = 'waiting' AND i.state IS DISTINCT FROM 'firing'
    AND greatest(o.created_at, i.resolved_at) < $ended_before
)
RETURNING message_id
