-- purpose: what became of messages that were being sent
-- parameters: message_ids (list), state (sent, waiting, failed), sent_at, next_attempt_at, last_error
UPDATE outbox SET
  state = $state, sent_at = $sent_at, next_attempt_at = coalesce($next_attempt_at::TIMESTAMP, next_attempt_at),
  last_error = $last_error
WHERE message_id IN (SELECT unnest($message_ids::VARCHAR[])) AND state = 'sending'
