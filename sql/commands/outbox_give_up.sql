-- purpose: end what could not be told for too long, visibly
-- parameters: created_before, why
-- grain of the answer: message
UPDATE outbox SET state = 'failed', last_error = $why || coalesce(': ' || last_error, '')
WHERE state = 'waiting' AND created_at < $created_before
RETURNING message_id
