-- purpose: announce resolves on those channels that were to hear of the fire
-- parameters: incident_ids, payloads (lists that run in parallel), channels (list), now
INSERT INTO outbox (message_id, incident_id, channel, event, created_at, payload, state, attempts, next_attempt_at)
SELECT o.incident_id || ':resolved:' || o.channel, o.incident_id, o.channel, 'resolved', $now, r.payload, 'waiting',
       0, $now
FROM outbox o
JOIN (
  SELECT unnest($incident_ids::VARCHAR[]) AS incident_id, unnest($payloads::VARCHAR[]) AS payload
) r ON r.incident_id = o.incident_id
WHERE o.event = 'fired' AND list_contains($channels::VARCHAR[], o.channel)
