"""``custom.metrics.k8s.io`` out of the engines' own ``/metrics``: what a HorizontalPodAutoscaler asks of an LLMService.

A request comes in by :mod:`listener` (TLS), :mod:`callers` says who asks, :mod:`reviews` whether they may,
:mod:`routes` answers it with :mod:`figures` of the pods that :mod:`pods` knows and :mod:`scraper` has asked.
:mod:`keeper` looks after the certificate, :mod:`registration` after the APIService.
"""
