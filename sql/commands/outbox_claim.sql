-- purpose: take all that waits for one channel, if the channel may send now and nobody else is sending to it
-- parameters: channel, now, run
-- grain of the answer: message taken; none when the channel is not free
UPDATE outbox SET state = 'sending', attempts = attempts + 1, claimed_at = $now, claimed_by = $run
WHERE channel = $channel AND state = 'waiting'
  AND EXISTS (SELECT 1 FROM channel c WHERE c.channel = $channel AND c.next_send_at <= $now)
  AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.channel = $channel AND o.state = 'sending')
RETURNING message_id, incident_id, event, payload, created_at
