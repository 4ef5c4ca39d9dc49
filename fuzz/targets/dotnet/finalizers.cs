// The mutator of the target `dotnet-finalizers`: it carries out the questions on its input.
//
// A finalizer puts its node into a queue, under a lock, since the runtime calls it on another thread.
// Invariant: nothing else refers to a dropped object, so the collector alone decides when it is dead.
// A question is six numbers. An answer is how many values it has, the number of collections, and the
// values.
using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

class Obj
{
    public readonly long kind;
    public long number;
    // The walk that has found it last, and its row in that one.
    public long walk, row;

    public Obj(long kind, long number)
    {
        this.kind = kind;
        this.number = number;
    }

    public virtual int Fields { get { return 0; } }
    public virtual Obj this[long field] { get { return null; } set { throw new ArgumentException(); } }
}

class Node : Obj
{
    Obj left, right;
    public long finalizer;
    public readonly long trace = Mutator.trace;

    public Node(long number) : base(1, number)
    {
        GC.SuppressFinalize(this);
    }

    ~Node()
    {
        Mutator.Enqueue(this);
    }

    public override int Fields { get { return 2; } }

    public override Obj this[long field]
    {
        get { return field == 0 ? left : right; }
        set
        {
            if (field == 0)
                left = value;
            else
                right = value;
        }
    }
}

class Items : Obj
{
    readonly Obj[] items;

    public Items(long length) : base(3, length)
    {
        items = new Obj[length];
    }

    public override int Fields { get { return items.Length; } }
    public override Obj this[long field] { get { return items[field]; } set { items[field] = value; } }
}

// A weak reference; an ephemeron, which has its value in the table of all keys.
class Weak : Obj
{
    static long weaks;
    public readonly long identity = weaks++;
    readonly GCHandle handle;

    public Weak(long kind, Obj target, bool tracksResurrection) : base(kind, 0)
    {
        handle = GCHandle.Alloc(
            target, tracksResurrection ? GCHandleType.WeakTrackResurrection : GCHandleType.Weak);
        Mutator.FreeLater(handle);
    }

    public Obj Target { get { return (Obj)handle.Target; } }
}

// The values of a key, each with the identity of its ephemeron.
class Attached
{
    public long ephemeron;
    public Obj value;
    public Attached next;
}

class Queue
{
    public readonly Node[] nodes = new Node[Mutator.RootsMax];
    public readonly long[] numbers = new long[Mutator.RootsMax];
    public int count;

    public void Clear()
    {
        while (count > 0)
            nodes[--count] = null;
    }
}

unsafe class Mutator
{
    public const int RootsMax = 1 << 16;
    const int QuestionBytes = 48, ValuesMax = 1 << 20;

    public static long trace;
    static readonly Obj[] roots = new Obj[RootsMax];
    static int rootCount;
    static readonly GCHandle[] handles = new GCHandle[RootsMax];
    static int handleCount;
    static bool tracksResurrection;
    static ConditionalWeakTable<Obj, Attached> table;
    // The nodes whose finalizers have been called, and those that run_finalizers has kept.
    static Queue pending = new Queue(), kept = new Queue();
    static readonly object pendingLock = new object();
    static object sink;
    static long* values;
    static long valueCount, walks;
    static readonly Obj[] found = new Obj[RootsMax];

    [DllImport("libc.so.6")] static extern long read(int pipe, void* buffer, long bytes);
    [DllImport("libc.so.6")] static extern long write(int pipe, void* buffer, long bytes);
    [DllImport("libc.so.6")] static extern void* malloc(long bytes);

    static void Main()
    {
        long* asked = stackalloc long[QuestionBytes / 8], answer = (long*)malloc(16 + ValuesMax * 8);
        values = answer + 2;
        while (read(0, asked, QuestionBytes) == QuestionBytes)
        {
            valueCount = 0;
            try
            {
                Do(asked);
            }
            catch (Exception)
            {
                valueCount = -1;
            }
            answer[0] = valueCount;
            answer[1] = GC.CollectionCount(0);
            for (long bytes = 16 + Math.Max(valueCount, 0) * 8, done = 0; done < bytes;)
                done += write(1, (byte*)answer + done, bytes - done);
        }
    }

    static void Do(long* asked)
    {
        long a = asked[1], b = asked[2], c = asked[3];
        switch (asked[0])
        {
            case 0: Begin(a != 0); break;
            case 1: roots[rootCount++] = new Node(a); break;
            case 2: roots[rootCount++] = new Items(a); break;
            case 3: roots[rootCount++] = new Weak(4, roots[a], tracksResurrection); break;
            case 4: Attach(roots[a], roots[b]); break;
            case 5: Free((int)a); break;
            case 6: Read(roots[a][b]); break;
            case 7: Answer(roots[a].number); break;
            case 8: Answer(((Weak)roots[a]).Target != null ? 1 : 0); break;
            case 9: ReadEphemeron((Weak)roots[a]); break;
            case 10: roots[a][b] = c < 0 ? null : roots[c]; break;
            case 11: roots[a].number = b; break;
            case 12: Copy(roots[a], roots[b], c, asked[4], asked[5]); break;
            case 13: CollectYoung(); break;
            case 14: GC.Collect(); break;
            case 15: Register((Node)roots[a], b); break;
            case 16: GC.SuppressFinalize(roots[a]); break;
            case 17: RunFinalizers(a != 0); break;
            case 18: Resurrect(a); break;
            case 19: Walk(); break;
        }
    }

    static void Answer(long value)
    {
        if (valueCount == ValuesMax)
            throw new InvalidOperationException();
        values[valueCount++] = value;
    }

    static void Begin(bool tracks)
    {
        lock (pendingLock)
        {
            trace++;
            pending.Clear();
        }
        kept.Clear();
        while (rootCount > 0)
            roots[--rootCount] = null;
        while (handleCount > 0)
            handles[--handleCount].Free();
        table = new ConditionalWeakTable<Obj, Attached>();
        tracksResurrection = tracks;
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    public static void FreeLater(GCHandle handle)
    {
        handles[handleCount++] = handle;
    }

    static void Free(int root)
    {
        Array.Copy(roots, root + 1, roots, root, rootCount - root - 1);
        roots[--rootCount] = null;
    }

    static void Read(Obj obj)
    {
        if (obj == null)
            return;
        roots[rootCount++] = obj;
        long first = 0;
        while (roots[first] != obj)
            first++;
        Answer(first);
    }

    static void Copy(Obj source, Obj dest, long from, long to, long length)
    {
        for (long done = 0; done < length; done++)
        {
            long item = from < to ? length - 1 - done : done;
            dest[to + item] = source[from + item];
        }
    }

    static void Attach(Obj key, Obj value)
    {
        Weak made = new Weak(5, key, true);
        Attached before;
        if (table.TryGetValue(key, out before))
            table.Remove(key);
        table.Add(key, new Attached { ephemeron = made.identity, value = value, next = before });
        roots[rootCount++] = made;
    }

    static void ReadEphemeron(Weak ephemeron)
    {
        Obj key = ephemeron.Target;
        Attached attached;
        if (key == null || !table.TryGetValue(key, out attached))
            return;
        while (attached != null && attached.ephemeron != ephemeron.identity)
            attached = attached.next;
        if (attached != null)
            Answer(attached.value.number);
    }

    // Allocates until the runtime collects.
    static void CollectYoung()
    {
        int before = GC.CollectionCount(0);
        while (GC.CollectionCount(0) == before)
            sink = new long[128];
        sink = null;
    }

    static void Register(Node node, long number)
    {
        node.finalizer = number;
        GC.ReRegisterForFinalize(node);
    }

    public static void Enqueue(Node node)
    {
        lock (pendingLock)
        {
            if (node.trace != trace)
                return;
            pending.numbers[pending.count] = node.finalizer;
            pending.nodes[pending.count++] = node;
        }
    }

    static void RunFinalizers(bool keep)
    {
        GC.WaitForPendingFinalizers();
        kept.Clear();
        lock (pendingLock)
        {
            Queue taken = pending;
            pending = kept;
            kept = taken;
        }
        for (int index = 0; index < kept.count; index++)
            Answer(kept.numbers[index]);
        if (!keep)
            kept.Clear();
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

    // The rows of a walk from the roots: how many numbers, kind, number, and the references, each its
    // field and row.
    static void Walk()
    {
        long rows = 0;
        walks++;
        for (int root = 0; root < rootCount; root++)
            RowOf(roots[root], ref rows);
        for (long row = 0; row < rows; row++)
        {
            Obj obj = found[row];
            long start = valueCount;
            Answer(0);
            Answer(obj.kind);
            Answer(obj.number);
            for (int field = 0; field < obj.Fields; field++)
            {
                if (obj[field] == null)
                    continue;
                Answer(field);
                Answer(RowOf(obj[field], ref rows));
            }
            values[start] = valueCount - start - 1;
            found[row] = null;
        }
    }

    static long RowOf(Obj obj, ref long rows)
    {
        if (obj.walk != walks)
        {
            obj.walk = walks;
            obj.row = rows;
            found[rows++] = obj;
        }
        return obj.row;
    }
}
