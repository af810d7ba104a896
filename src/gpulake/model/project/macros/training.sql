{# A row of a training run that took more than so many times its usual time was stalled; detect and diagnose say the same. #}
{% macro stall_factor() %}5{% endmacro %}
