/** Draws shapes on a canvas or into an SVG file. */
import { escaped } from './dom';

export interface Stroke { stroke?: string; fill?: string; width?: number; dash?: number[]; opacity?: number }
type At = [number, number];

export interface Pen {
  line(points: At[], style: Stroke): void;
  /** A curve with one control point. */
  curve(from: At, control: At, to: At, style: Stroke): void;
  circle(at: At, radius: number, style: Stroke): void;
  polygon(points: At[], style: Stroke): void;
  text(at: At, words: string, colour: string, size: number, align: 'left' | 'center' | 'right'): void;
}

export class CanvasPen implements Pen {
  constructor(private readonly context: CanvasRenderingContext2D) {}

  private paint(style: Stroke): void {
    const { context } = this;
    context.globalAlpha = style.opacity ?? 1;
    if (style.fill !== undefined) {
      context.fillStyle = style.fill;
      context.fill();
    }
    if (style.stroke !== undefined) {
      context.strokeStyle = style.stroke;
      context.lineWidth = style.width ?? 1;
      context.setLineDash(style.dash ?? []);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  line(points: At[], style: Stroke): void {
    this.context.beginPath();
    points.forEach(([x, y], i) => (i === 0 ? this.context.moveTo(x, y) : this.context.lineTo(x, y)));
    this.paint(style);
  }

  curve(from: At, control: At, to: At, style: Stroke): void {
    this.context.beginPath();
    this.context.moveTo(...from);
    this.context.quadraticCurveTo(...control, ...to);
    this.paint(style);
  }

  circle([x, y]: At, radius: number, style: Stroke): void {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.paint(style);
  }

  polygon(points: At[], style: Stroke): void {
    this.context.beginPath();
    points.forEach(([x, y], i) => (i === 0 ? this.context.moveTo(x, y) : this.context.lineTo(x, y)));
    this.context.closePath();
    this.paint(style);
  }

  text([x, y]: At, words: string, colour: string, size: number, align: CanvasTextAlign): void {
    this.context.fillStyle = colour;
    this.context.font = `${size}px system-ui, sans-serif`;
    this.context.textAlign = align;
    this.context.fillText(words, x, y);
  }
}

export class SvgPen implements Pen {
  private readonly parts: string[] = [];

  constructor(private readonly width: number, private readonly height: number, private readonly page: string) {}

  private add(element: string, style: Stroke): void {
    const looks = [`fill="${style.fill ?? 'none'}"`];
    if (style.stroke !== undefined) looks.push(`stroke="${style.stroke}" stroke-width="${style.width ?? 1}"`);
    if (style.dash) looks.push(`stroke-dasharray="${style.dash.join(' ')}"`);
    if (style.opacity !== undefined) looks.push(`opacity="${style.opacity}"`);
    this.parts.push(`<${element} ${looks.join(' ')}/>`);
  }

  line(points: At[], style: Stroke): void {
    this.add(`polyline points="${shown(points)}"`, style);
  }

  curve(from: At, control: At, to: At, style: Stroke): void {
    this.add(`path d="M${shown([from])} Q${shown([control])} ${shown([to])}"`, style);
  }

  circle([x, y]: At, radius: number, style: Stroke): void {
    this.add(`circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${radius.toFixed(1)}"`, style);
  }

  polygon(points: At[], style: Stroke): void {
    this.add(`polygon points="${shown(points)}"`, style);
  }

  text([x, y]: At, words: string, colour: string, size: number, align: 'left' | 'center' | 'right'): void {
    const anchor = { left: 'start', center: 'middle', right: 'end' }[align];
    this.parts.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${colour}" font-size="${size}" text-anchor="${anchor}">${escaped(words)}</text>`);
  }

  toString(): string {
    const { width, height } = this;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">`
      + `<rect width="${width}" height="${height}" fill="${this.page}"/>${this.parts.join('\n')}</svg>`;
  }
}

function shown(points: At[]): string {
  return points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');
}
