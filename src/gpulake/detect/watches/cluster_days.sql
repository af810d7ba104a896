WITH machine_days AS (
    SELECT
        stretches.cluster_id,
        stretches.dt,
        stretches.machine_key,
        greatest(sum(stretches.seconds * stretches.busy_gpus) / (sum(stretches.seconds) * machines.gpus), {idle})
            AS busy_ratio
    FROM silver_machine_stretches AS stretches
    INNER JOIN silver_machines AS machines ON stretches.machine_key = machines.machine_key
    WHERE stretches.busy_gpus IS NOT NULL AND stretches.seconds > 0 AND machines.gpus > 0
    GROUP BY stretches.cluster_id, stretches.dt, stretches.machine_key, machines.gpus
),
usual AS (SELECT machine_key, median(busy_ratio) AS busy_ratio FROM machine_days GROUP BY machine_key),
days AS (
    SELECT
        machine_days.cluster_id,
        machine_days.dt,
        avg(greatest(-ln({times}), least(ln({times}), ln(machine_days.busy_ratio / usual.busy_ratio))))
            AS log_times_busier
    FROM machine_days
    INNER JOIN usual ON machine_days.machine_key = usual.machine_key
    GROUP BY machine_days.cluster_id, machine_days.dt
)
SELECT
    daily.cluster_id,
    epoch_ms(calendar.started_at) AS at_ms,
    CASE WHEN NOT daily.is_poorly_covered THEN days.log_times_busier END AS log_times_busier
FROM gold_cluster_util_daily AS daily
INNER JOIN silver_days AS calendar ON daily.cluster_id = calendar.cluster_id AND daily.dt = calendar.dt
LEFT JOIN days ON daily.cluster_id = days.cluster_id AND daily.dt = days.dt
ORDER BY daily.cluster_id, at_ms
