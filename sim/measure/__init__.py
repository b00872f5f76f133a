"""A small kit that measures kernels and collectives on a real machine and writes the logs that ``sim calibrate`` reads.

It needs torch (the extra ``measure``), whose ``torch.cuda`` speaks to ROCm and CUDA alike. The way in is
``sim.measure_machine``; torch is imported there and nowhere above.
"""
