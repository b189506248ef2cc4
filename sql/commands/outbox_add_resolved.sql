-- purpose: announce a resolve on those channels that were to hear of the fire
-- parameters: incident_id, channels (list), payload, now
INSERT INTO outbox (message_id, incident_id, channel, event, created_at, payload, state, attempts, next_attempt_at)
SELECT $incident_id || ':resolved:' || channel, $incident_id, channel, 'resolved', $now, $payload, 'waiting', 0, $now
FROM outbox
WHERE incident_id = $incident_id AND event = 'fired' AND list_contains($channels::VARCHAR[], channel)
