pragma circom 2.2.0;

bus Point() { signal x; signal y[2]; }

template Sum(n) {
    signal input in[n];
    signal output out;
    var acc = 0;
    for (var i = 0; i < n; i++) { acc += in[i]; }
    out <== acc * acc;
}

template Pay() {
    signal input amount;
    signal input pathIndices[3];
    signal input grid[2][2];
    signal input unused;
    Point() input p[2];
    signal output root;
    signal mid;
    component sum = Sum(3);
    for (var i = 0; i < 3; i++) { sum.in[i] <== pathIndices[i]; pathIndices[i] * (pathIndices[i] - 1) === 0; }
    mid <== amount * grid[0][1] + p[0].x;
    signal more <== mid * p[1].y[1] + grid[1][1];
    root <== more * sum.out + 7 * grid[0][0];
    amount * amount === mid - p[0].x + amount;
}

component main {public [amount]} = Pay();
