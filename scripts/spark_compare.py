"""Build a lake with both engines and compare."""
import sys, time, shutil, pathlib, duckdb, math
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.model import build as room
from gpulake.model.plan import shipped_plan
from gpulake.model.spark import spark_engine
sys.path.insert(0,"tests")
def build(flow, engine):
    plan=shipped_plan()
    out={}
    with flow.lake.writing(), flow.lake.stage("unpublished") as st:
        room.write_settings(st.connection, flow.config); room.bound_by_landing(st.connection)
        t=time.time(); c=time.process_time()
        if engine=="spark":
            with spark_engine(st,plan,"local[2]") as e:
                real=e.create
                st.connection.execute(f"attach '{flow.lake.root.parent}/duckdb.duckdb' as ref (read_only)")
                only=set(sys.argv[2].split(",")) if len(sys.argv)>2 else None
                from gpulake.model.spark import TYPES
                def use(m):
                    n=st.connection.execute(f"create or replace table lake.main.{m.name} as from ref.main.{m.name}").fetchone()[0]
                    f=e.folder/f"{m.name}.parquet"; st.connection.execute(f"copy lake.main.{m.name} to '{f}'")
                    e._view("lake__"+m.name, e._read([f],{c.name:TYPES[c.type] for c in m.columns})); return n
                def create(m,empty):
                    if only and m.name not in only: return use(m)
                    try: return real(m,empty)
                    except Exception as x:
                        print("FAILED",m.name,type(x).__name__,str(x)[:1500].replace("\n"," "),flush=True)
                        return use(m)
                e.create=create
                room.build(st,plan,rep,e)
                st.connection.execute("detach ref")
        else: room.build(st,plan,rep)
        print("#",engine,round(time.time()-t,1),"s wall")
        if "--tests" in sys.argv:
            bad=[r for r in room.test(st,plan,lambda *_:None,None) if r.status!="pass"]
            print("tests not passed",engine,[(r.name,r.failures,r.status) for r in bad])
        st.connection.execute(f"detach lake") if False else None
        st.connection.execute("checkpoint lake")
        st.connection.execute("use memory"); st.connection.execute("detach lake")
        dst=flow.lake.root.parent/f"{engine}.duckdb"; dst.unlink(missing_ok=True)
        shutil.copy(st.path,dst)
    return dst
last=[0,""]
def rep(what,share):
    now=time.time()
    if last[1] and now-last[0]>4: print("   ",last[1],round(now-last[0],1),flush=True)
    last[:]=[now,what]
def compare(a,b):
    con=duckdb.connect(); con.execute(f"attach '{a}' as one (read_only); attach '{b}' as two (read_only)")
    tabs=[r[0] for r in con.execute("select table_name from duckdb_tables() where database_name='one' order by 1").fetchall()]
    ok=0
    for t in tabs:
        n1,n2=[con.execute(f"select count(*) from {d}.{t}").fetchone()[0] for d in ("one","two")]
        l,r=[con.execute(f"from {x}.{t} except all from {y}.{t}").to_arrow_table().to_pylist() for x,y in (("one","two"),("two","one"))]
        if n1!=n2: print("ROWS",t,n1,n2)
        def key(row): return tuple(str(v) for v in row.values() if not isinstance(v,float))
        def nums(row): return [v for v in row.values() if isinstance(v,float)]
        L=sorted(l,key=lambda x:(key(x),[round(v,4) for v in nums(x)])); R=sorted(r,key=lambda x:(key(x),[round(v,4) for v in nums(x)]))
        bad=None
        for x,y in zip(L,R):
            d={c:(x[c],y[c]) for c in x if not (x[c]==y[c] or isinstance(x[c],float) and isinstance(y[c],float) and (math.isclose(x[c],y[c],rel_tol=1e-9,abs_tol=1e-12) or math.isnan(x[c]) and math.isnan(y[c])))}
            if d: bad=d; break
        if len(L)!=len(R) or bad: print("DIFF",t,n1,n2,"rows differing",len(L),len(R),str(bad)[:500])
        else: ok+=1
    print("tables equal",ok,"of",len(tabs), "with rows", sum(con.execute(f"select count(*)>0 from one.{t}").fetchone()[0] for t in tabs))
if __name__=="__main__":
    flow=Flow(Config(lake=pathlib.Path(sys.argv[1])/"lake",threads=2))
    compare(build(flow,"duckdb"),build(flow,"spark"))
