import sys; sys.path.insert(0,'benchmarks')
import _features, torch, numpy as np, time
from probes_gpu import *
from torch.profiler import profile, ProfilerActivity
what=sys.argv[1]
if what=="exemplar":
    c=GALLERIES[0]; x,y=make_gallery(c,c.most); p=Exemplar().fit(there(x),y); work=p.retrieve_leave_one_out
elif what=="simpleshot":
    x,y=features(CLASSES*PER_CLASS,CLASSES,apart=.4); t,_=features(TESTS,CLASSES,apart=.4,seed=1)
    d,xt,tt=make_draws(y,100,1),there(x),there(t); work=lambda: predict_repeats(xt,y,d,tt,STEPS)
elif what=="inat":
    x,y=features(100000,10000); xt=there(x); work=lambda: Ridge().fit(xt,y)
elif what=="nn":
    x,y=features(50000,1000,apart=.4); xt=there(x); work=lambda: nearest(xt,xt,1,y,is_self=True)
print(what,[round(clock(work)[0],4) for _ in range(3)])
import cProfile,pstats
pr=cProfile.Profile(); pr.enable(); work(); torch.cuda.synchronize(); pr.disable()
pstats.Stats(pr).sort_stats('tottime').print_stats(8)
with profile(activities=[ProfilerActivity.CUDA]) as prof: work(); torch.cuda.synchronize()
print(prof.key_averages().table(sort_by="cuda_time_total",row_limit=14,max_name_column_width=60)[:4200])
