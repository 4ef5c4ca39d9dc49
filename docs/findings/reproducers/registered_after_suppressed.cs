// A resurrected object whose finalizer was suppressed after it had run is never finalized again.
//
// dotnet run registered_after_suppressed.cs
//
// The exit code is 1 while that is so.
using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

class Resurrected
{
    public static Resurrected last;
    public static int calls;

    ~Resurrected()
    {
        calls++;
        last = this;
    }
}

class Program
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Drop()
    {
        new Resurrected();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void RegisterAndDrop(bool suppress)
    {
        Resurrected resurrected = Resurrected.last;
        Resurrected.last = null;
        if (suppress)
            GC.SuppressFinalize(resurrected);
        GC.ReRegisterForFinalize(resurrected);
    }

    static void Collect()
    {
        for (int time = 0; time < 3; time++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
    }

    static int CallsAfterRegistering(bool suppress)
    {
        Drop();
        Collect();
        Resurrected.calls = 0;
        RegisterAndDrop(suppress);
        Collect();
        return Resurrected.calls;
    }

    [DllImport("libc")] static extern int puts(string line);

    static void Say(string what, int expected, int got)
    {
        puts(what + " registered again: expected " + expected.ToString()
            + " call, got " + got.ToString());
    }

    static int Main()
    {
        int suppressed = CallsAfterRegistering(true), plain = CallsAfterRegistering(false);
        Say("suppressed and", 1, suppressed);
        Say("only", 1, plain);
        return suppressed == 0 ? 1 : 0;
    }
}
