-- purpose: a channel that did not get through has another address: try it now
-- parameters: channel, now
UPDATE channel SET next_send_at = greatest($now, last_error_at + INTERVAL 1 SECOND), failures = 0
WHERE channel = $channel
