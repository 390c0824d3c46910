import math, os, random, sys, time
import kymogram
from array import array
what = sys.argv[1]
try:
    import numpy as np
except ImportError:
    np = None
def curve(n, frm, to, rate, noise, seed):
    r = random.Random(seed); g = r.gauss; out=[]; drift=0.0
    for i in range(n):
        drift = drift*0.97 + g(0,0.25); t=i/n*rate; e=math.exp(-t)
        out.append(to+(frm-to)*e+(drift+g(0,0.5))*noise*(0.3+e))
    return out
A=["train/loss","train/accuracy","eval/loss","eval/accuracy","optim/lr","optim/grad_norm"]+[f"layers/{i}/grad_norm" for i in range(6)]+[f"layers/{i}/weight_norm" for i in range(6)]+["time/step_ms","time/data_ms"]
def long(n, name, ws):
    run = kymogram.init(project_name=ws, run_name=name)
    r = random.Random(n); base = 1.9
    for s in range(0, n, 50000):
        v=[0.6+1.3*math.exp(-5*(s+i)/n)+r.gauss(0,0.05) for i in range(min(50000,n-s))]
        for at,val in ((618033,1000.0),(250000,math.nan),(250001,math.nan),(700000,math.nan)):
            if s<=at<s+50000: v[at-s]=val
        kymogram.log("train/loss", v, step=s)
    kymogram.close()
if what=="A":
    for k in range(50):
        kymogram.init(project_name="A", run_name=f"sweep-{k:02d}", config={"lr":10**(-4+3*k/49),"seed":k,"model":["small","large"][k%2]})
        for j,m in enumerate(A):
            v=curve(2000,2.4,0.3+k*0.01+j*0.05,4,0.12,f"{k}/{m}")
            if k==17 and m=="optim/grad_norm": v[1234]=1000.0
            kymogram.log(m, v)
        kymogram.close()
elif what=="B":
    kymogram.init(project_name="B", run_name="wide-5000")
    for i in range(1250):
        for w in ("grad_norm","weight_norm","act_mean","act_std"):
            kymogram.log(f"layers/{i}/{w}", curve(100,6,1+i%7,4,0.5,f"{i}{w}"))
    kymogram.close()
elif what=="C": long(1_000_000,"long-1m","C")
elif what=="D": long(10_000_000,"long-10m","C")
elif what=="H":
    kymogram.init(project_name="H", run_name="series-100k")
    for i in range(25000):
        for w in ("grad_norm","weight_norm","act_mean","act_std"):
            kymogram.log(f"block{i//250}/layer{i%250}/{w}", [1.0/(1+s)+i*1e-4 for s in range(4)])
    kymogram.close()
elif what=="L":
    run=kymogram.init(project_name="L", run_name=f"live-{int(time.time())}")
    print(run.id, flush=True)
    for line in sys.stdin:
        kymogram.log("train/loss", float(line)); print(time.time()*1000, flush=True)
    kymogram.close()
