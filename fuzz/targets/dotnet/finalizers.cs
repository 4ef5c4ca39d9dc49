// What the mutator does for the target `dotnet-finalizers`.
//
// A finalizer puts its node into a queue, under a lock, since the runtime calls it on another thread.
// Invariant: nothing else refers to a dropped object, so the collector alone decides when it is dead.
using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

class FinalizableNode : Node
{
    public long finalizer;
    public readonly long trace = Mutator.trace;

    public FinalizableNode(long number)
    {
        this.number = number;
        GC.SuppressFinalize(this);
    }

    ~FinalizableNode()
    {
        Mutator.Enqueue(this);
    }
}

// A weak reference; an ephemeron, which has its value in the table of all keys.
class Weak
{
    public readonly long kind;
    public readonly GCHandle handle;

    public Weak(long kind, object target, bool tracksResurrection)
    {
        this.kind = kind;
        handle = GCHandle.Alloc(
            target, tracksResurrection ? GCHandleType.WeakTrackResurrection : GCHandleType.Weak);
        Mutator.FreeLater(handle);
    }
}

// The values of a key, each with its ephemeron's handle, since no value keeps an ephemeron alive.
class Attached
{
    public GCHandle ephemeron;
    public object value;
    public Attached next;
}

class Queue
{
    public readonly FinalizableNode[] nodes = new FinalizableNode[Mutator.RootsMax];
    public readonly long[] numbers = new long[Mutator.RootsMax];
    public int count;

    public void Clear()
    {
        Mutator.Clear(nodes, ref count);
    }
}

unsafe partial class Mutator
{
    public static long trace;
    static GCHandle[] handles;
    static int handleCount;
    static bool tracksResurrection;
    static ConditionalWeakTable<object, Attached> table;
    // The nodes whose finalizers have been called, and those that run_finalizers has kept.
    static Queue pending, kept;
    static readonly object pendingLock = new object();
    static object sink;

    static long DoWithFinalizers(long* asked, long* answer)
    {
        long a = asked[1], b = asked[2];
        switch (asked[0])
        {
            case 18: Begin(a != 0); break;
            case 19: roots[rootCount++] = new FinalizableNode(a); break;
            case 20: roots[rootCount++] = new Weak(4, roots[a], tracksResurrection); break;
            case 21: Attach(roots[a], roots[b]); break;
            case 22: answer[0] = ReadWeakref((Weak)roots[a], b != 0); break;
            case 23: return answer[0] = ReadEphemeron((Weak)roots[a]);
            case 24: CollectYoung(); break;
            case 25: Register((FinalizableNode)roots[a], b); break;
            case 26: GC.SuppressFinalize(roots[a]); break;
            case 27: return answer[0] = RunFinalizers(a != 0);
            case 28: Resurrect(a); break;
        }
        return 0;
    }

    static void Begin(bool tracks)
    {
        if (pending == null)
        {
            handles = new GCHandle[RootsMax];
            pending = new Queue();
            kept = new Queue();
        }
        lock (pendingLock)
        {
            trace++;
            pending.Clear();
        }
        kept.Clear();
        Clear(roots, ref rootCount);
        while (handleCount > 0)
            handles[--handleCount].Free();
        table = new ConditionalWeakTable<object, Attached>();
        tracksResurrection = tracks;
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    public static void FreeLater(GCHandle handle)
    {
        handles[handleCount++] = handle;
    }

    // Whether its object is alive. If it is kept, it becomes a root, or else the reference once more.
    [MethodImpl(MethodImplOptions.NoInlining)]
    static long ReadWeakref(Weak weakref, bool keep)
    {
        object found = weakref.handle.Target;
        if (keep)
            roots[rootCount++] = found ?? weakref;
        return found != null ? 1 : 0;
    }

    static void Attach(object key, object value)
    {
        Weak made = new Weak(5, key, true);
        Attached before;
        if (table.TryGetValue(key, out before))
            table.Remove(key);
        table.Add(key, new Attached { ephemeron = made.handle, value = value, next = before });
        roots[rootCount++] = made;
    }

    // The number of the value follows, if there is one.
    static long ReadEphemeron(Weak ephemeron)
    {
        object key = ephemeron.handle.Target;
        Attached attached;
        if (key == null || !table.TryGetValue(key, out attached))
            return 0;
        while (attached != null && attached.ephemeron != ephemeron.handle)
            attached = attached.next;
        if (attached == null)
            return 0;
        more[0] = NumberOf(attached.value);
        return 1;
    }

    // Allocates until the runtime collects.
    static void CollectYoung()
    {
        int before = GC.CollectionCount(0);
        while (GC.CollectionCount(0) == before)
            sink = new long[128];
        sink = null;
    }

    static void Register(FinalizableNode node, long number)
    {
        node.finalizer = number;
        GC.ReRegisterForFinalize(node);
    }

    public static void Enqueue(FinalizableNode node)
    {
        lock (pendingLock)
        {
            if (node.trace != trace)
                return;
            pending.numbers[pending.count] = node.finalizer;
            pending.nodes[pending.count++] = node;
        }
    }

    // The numbers of the finalizers follow.
    static long RunFinalizers(bool keep)
    {
        GC.WaitForPendingFinalizers();
        kept.Clear();
        lock (pendingLock)
        {
            Queue taken = pending;
            pending = kept;
            kept = taken;
        }
        int count = kept.count;
        for (int index = 0; index < count; index++)
            more[index] = kept.numbers[index];
        if (!keep)
            kept.Clear();
        return count;
    }

    static void Resurrect(long number)
    {
        for (int index = 0; index < kept.count; index++)
        {
            if (kept.numbers[index] != number)
                continue;
            roots[rootCount++] = kept.nodes[index];
            return;
        }
        throw new ArgumentException();
    }
}
