// The mutator of the target `dotnet`: each of its threads carries out what comes through a pipe.
//
// It uses only System.Private.CoreLib, reads and writes with libc, and allocates only the requested
// objects. A question is eight numbers, and so is an answer, which more numbers may follow. The
// questions of the target `dotnet-finalizers` are in finalizers.cs, and the sampling sessions in
// sessions.cs.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

class Node
{
    public object left, right;
    public long number;

    public object Clone()
    {
        return MemberwiseClone();
    }
}

// An item of a string.
unsafe struct Item
{
    public const int Bytes = 1 << 15;
    fixed byte bytes[Bytes];
}

unsafe delegate long Asked(long* asked, long* answer);

unsafe partial class Mutator
{
    public const int RootsMax = 1 << 16;
    // A walk that allocated a longer list would be sampled itself.
    const int FoundMax = 1 << 18;
    const int MessageBytes = 64, MoreNumbers = 1 << 24;
    const int ItemsAt = 16, NumberBytes = 8, Period = 1 << 16;
    // The place of a delegate's entry, in words; and jmp [rip + distance].
    const int EntryAt = 3, Jump = 0x25ff, JumpBytes = 6;

    static readonly object[] roots = new object[RootsMax];
    static int rootCount;
    // The objects of the present walk.
    static readonly object[] found = new object[FoundMax];
    static int foundCount;
    static long* more;
    static byte* period;
    // Where calls of Allocate arrive.
    static long entry;
    static readonly Node prototype = new Node();

    [DllImport("libc.so.6")] static extern long read(int pipe, void* buffer, long bytes);
    [DllImport("libc.so.6")] static extern long write(int pipe, void* buffer, long bytes);
    [DllImport("libc.so.6")] static extern void* malloc(long bytes);
    [DllImport("libc.so.6")] static extern long pthread_self();
    [DllImport("libc.so.6")] static extern int gettid();

    readonly int input, output;
    // The thread's allocation context: the next place of an object, and the end.
    long* bounds;

    Mutator(long pipes)
    {
        input = (int)pipes;
        output = (int)(pipes >> 32);
    }

    static void Main()
    {
        more = (long*)malloc(MoreNumbers * 8);
        period = (byte*)malloc(Period);
        for (uint place = 0; place < Period; place++)
            period[place] = (byte)((uint)(place * 2654435761) >> 24);
        PrepareSessions();
        Asked allocate = new Mutator(0).Allocate;
        entry = ((long*)AddressOf(allocate))[EntryAt];
        // Each thread's two pipes, each in half a number.
        long first, pipes;
        read(0, &first, 8);
        while (read(0, &pipes, 8) == 8)
            new Thread(new Mutator(pipes).Serve).Start();
        new Mutator(first).Serve();
    }

    void Serve()
    {
        long* asked = stackalloc long[MessageBytes / 8], answer = stackalloc long[MessageBytes / 8];
        bounds = answer;
        while (read(input, asked, MessageBytes) == MessageBytes)
        {
            long count = 0;
            answer[1] = 0;
            try
            {
                count = asked[0] <= 2 ? Allocate(asked, answer) : Do(asked, answer);
            }
            catch (Exception)
            {
                answer[1] = -1;
            }
            if (asked[0] > 2)
                Bounds(answer);
            answer[5] = GC.CollectionCount(0);
            write(output, answer, MessageBytes);
            for (long bytes = count * 8, done = 0; done < bytes;)
                done += write(output, (byte*)more + done, bytes - done);
        }
    }

    // The address of the machine code of Allocate. If it has several tiers, calls arrive at a jump,
    // whose target is in memory.
    static long Code()
    {
        byte* code = (byte*)entry;
        return *(ushort*)code == Jump ? *(long*)(code + JumpBytes + *(int*)(code + 2)) : entry;
    }

    void Bounds(long* answer)
    {
        answer[3] = bounds[0];
        answer[4] = bounds[1];
    }

    // A new object: its place, its size, the times around it, and the end of the context before it.
    // Its place and the bounds are read right at the allocation, since any other call may wait for
    // a collection of another thread, which moves the object.
    [MethodImpl(MethodImplOptions.NoInlining)]
    long Allocate(long* asked, long* answer)
    {
        object made = null;
        answer[6] = Stopwatch.GetTimestamp();
        answer[0] = bounds[1];
        // The last three call the runtime for each object.
        switch (asked[0] + 3 * asked[3])
        {
            case 0: made = new Node(); break;
            case 1: made = new Item[asked[1]]; break;
            case 2: made = new object[asked[1]]; break;
            case 3: made = prototype.Clone(); break;
            case 4: made = Array.CreateInstance(typeof(Item), (int)asked[1]); break;
            case 5: made = Array.CreateInstance(typeof(object), (int)asked[1]); break;
        }
        answer[1] = AddressOf(made);
        Bounds(answer);
        answer[7] = Stopwatch.GetTimestamp();
        roots[rootCount++] = made;
        if (asked[0] == 0)
            ((Node)made).number = asked[1];
        if (asked[0] == 1)
            Fill((Item[])made, asked[2]);
        byte* now = (byte*)AddressOf(made), type = *(byte**)now;
        // The type has the size of an item, and the object the number of its items.
        long itemBytes = *(int*)type < 0 ? *(ushort*)type * *(uint*)(now + 8) : 0;
        answer[2] = *(uint*)(type + 4) + itemBytes;
        return 0;
    }

    // The questions that allocate nothing; returns how many numbers follow the answer.
    long Do(long* asked, long* answer)
    {
        switch (asked[0])
        {
            case 3: Free((int)asked[1]); break;
            case 4: Write(roots[asked[1]], asked[2], asked[3] < 0 ? null : roots[asked[3]]); break;
            case 5: answer[0] = Keep(Read(roots[asked[1]], asked[2])); break;
            case 6: ((Node)roots[asked[1]]).number = asked[2]; break;
            case 7: Copy(asked); break;
            case 8: answer[0] = RuntimeHelpers.GetHashCode(roots[asked[1]]); break;
            case 9: GC.Collect(); break;
            case 10: return answer[0] = Walk();
            case 11: answer[0] = NumberOf(roots[asked[1]]); break;
            case 12: answer[0] = *(long*)asked[1]; break;
            case 13: *(long*)asked[1] = asked[2]; break;
            case 14:
                answer[0] = pthread_self();
                answer[2] = gettid();
                break;
            case 15: bounds = (long*)asked[1]; break;
            case 16: Clear(roots, ref rootCount); break;
            case 17: return answer[0] = Contents(asked[1]);
            case 29: answer[0] = Code(); break;
            case 30: answer[0] = EnableSampling(); break;
            case 31: disable((ulong)asked[1]); break;
            default: return DoWithFinalizers(asked, answer);
        }
        return 0;
    }

    // Writes what a string with that number contains: docs/protocol.md.
    static void Fill(Item[] made, long number)
    {
        fixed (Item* items = made)
        {
            byte* bytes = (byte*)items;
            for (long offset = 0; offset < (long)made.Length * Item.Bytes; offset++)
                bytes[offset] = offset < NumberBytes
                    ? (byte)(number >> (int)(8 * offset))
                    : period[(number * 40503 + offset) % Period];
        }
    }

    // Copies the items of a string; returns how many numbers they are.
    static long Contents(long address)
    {
        long count = (long)*(uint*)(address + 8) * Item.Bytes / 8;
        for (long place = 0; place < count; place++)
            more[place] = ((long*)(address + ItemsAt))[place];
        return count;
    }

    static long AddressOf(object obj)
    {
        return *(long*)Unsafe.AsPointer(ref obj);
    }

    static void Free(int root)
    {
        Array.Copy(roots, root + 1, roots, root, rootCount - root - 1);
        roots[--rootCount] = null;
    }

    public static void Clear(object[] objects, ref int count)
    {
        while (count > 0)
            objects[--count] = null;
    }

    // Adds a root; returns the first root that is the same object.
    static long Keep(object found)
    {
        if (found == null)
            return -1;
        roots[rootCount++] = found;
        int first = 0;
        while (roots[first] != found)
            first++;
        return first;
    }

    static void Copy(long* asked)
    {
        object[] source = (object[])roots[asked[1]], dest = (object[])roots[asked[2]];
        Array.Copy(source, (int)asked[3], dest, (int)asked[4], (int)asked[5]);
    }

    static object Read(object obj, long field)
    {
        Node node = obj as Node;
        if (node == null)
            return ((object[])obj)[field];
        return field == 0 ? node.left : node.right;
    }

    static void Write(object obj, long field, object value)
    {
        Node node = obj as Node;
        if (node == null)
            ((object[])obj)[field] = value;
        else if (field == 0)
            node.left = value;
        else
            node.right = value;
    }

    // The number of a node, or the length.
    static long NumberOf(object obj)
    {
        Node node = obj as Node;
        return node != null ? node.number : obj is Weak ? 0 : *(uint*)(AddressOf(obj) + 8);
    }

    // The rows of a walk from the roots: how many numbers, kind, number or length, and the
    // references, each its field and row. A string has its address instead.
    static long Walk()
    {
        long count = 0;
        Clear(found, ref foundCount); // The last walk may have ended early.
        for (int root = 0; root < rootCount; root++)
            RowOf(roots[root]);
        for (int row = 0; row < foundCount; row++)
        {
            object obj = found[row];
            object[] array = obj as object[];
            Weak weak = obj as Weak;
            long fields = obj is Node ? 2 : array != null ? array.Length : 0, start = count++;
            long kind = obj is Node ? 1 : array != null ? 3 : weak != null ? weak.kind : 2;
            if (count + 3 + 2 * fields > MoreNumbers)
                throw new InvalidOperationException();
            more[count++] = kind;
            more[count++] = NumberOf(obj);
            if (kind == 2)
                more[count++] = AddressOf(obj);
            for (long field = 0; field < fields; field++)
            {
                object item = Read(obj, field);
                if (item == null)
                    continue;
                more[count++] = field;
                more[count++] = RowOf(item);
            }
            more[start] = count - start - 1;
        }
        Clear(found, ref foundCount);
        return count;
    }

    static int RowOf(object obj)
    {
        for (int row = 0; row < foundCount; row++)
            if (found[row] == obj)
                return row;
        found[foundCount] = obj;
        return foundCount++;
    }
}
